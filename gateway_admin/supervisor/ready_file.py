"""``ready.json``: what other programs need to know of a running instance."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway_admin.supervisor.files import write_private


@dataclass(frozen=True, slots=True)
class Ready:
    """How to reach a running instance.

    Attributes:
        base_url: for OpenAI clients; ends in ``/v1``.
        api_key: of the demo tenant.
        admin_url: of the operators' pages.
        admin_user: who may log in there.
        admin_password: with which password.
        flower_url: None when Flower is off.
        pid: of the supervisor.
    """

    base_url: str
    api_key: str
    admin_url: str
    admin_user: str
    admin_password: str
    flower_url: str | None
    pid: int


def ready_path(data_dir: Path) -> Path:
    """Where the file of ``data_dir`` lives."""
    return data_dir / "ready.json"


def write_ready(data_dir: Path, ready: Ready) -> None:
    """Write the file, mode 0600, atomically.

    Raises:
        OSError: the data directory cannot be written.
    """
    write_private(ready_path(data_dir), json.dumps(asdict(ready), indent=2) + "\n")


def read_ready(data_dir: Path, pid: int) -> Ready | None:
    """What the supervisor ``pid`` has written; None while it has not, or when another left the file."""
    try:
        ready = Ready(**json.loads(ready_path(data_dir).read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None
    return ready if ready.pid == pid else None


def remove_ready(data_dir: Path) -> None:
    """Remove the file, if there is one."""
    ready_path(data_dir).unlink(missing_ok=True)
