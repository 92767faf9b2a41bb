"""The secrets of a data directory: made once, kept in files of mode 0600, never on a command line."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gateway_admin.supervisor.files import make_private_directory, write_private

ADMIN_USER = "admin"
SECRETS_DIRECTORY = "secrets"


@dataclass(frozen=True, slots=True)
class Credentials:
    """What opens a running instance.

    Attributes:
        admin_password: of the operator ``admin``.
        api_key: of the demo tenant.
        valkey_password: of the embedded Valkey; loopback alone does not keep other users of the machine out.
    """

    admin_password: str
    api_key: str
    valkey_password: str


def load_credentials(data_dir: Path, new_api_key: Callable[[], str]) -> Credentials:
    """Read the secrets of ``data_dir``, making those that are missing; ``new_api_key`` makes a tenant's key.

    Raises:
        OSError: the directory cannot be read or written.
    """
    directory = data_dir / SECRETS_DIRECTORY
    make_private_directory(directory)
    return Credentials(
        admin_password=_keep(directory / "admin_password", lambda: secrets.token_urlsafe(15)),
        api_key=_keep(api_key_path(data_dir), new_api_key),
        valkey_password=_keep(directory / "valkey_password", lambda: secrets.token_hex(24)),
    )


def replace_api_key(data_dir: Path, api_key: str) -> str:
    """Keep ``api_key`` in place of the demo tenant's former one, and return it.

    Raises:
        OSError: the file cannot be written.
    """
    write_private(api_key_path(data_dir), api_key + "\n")
    return api_key


def keep_secret_key(path: Path) -> None:
    """Make Django's secret key at ``path``, unless there is one.

    Raises:
        OSError: the file cannot be read or written.
    """
    _keep(path, lambda: secrets.token_urlsafe(50))


def api_key_path(data_dir: Path) -> Path:
    """The file that holds the demo tenant's key."""
    return data_dir / SECRETS_DIRECTORY / "api_key"


def _keep(path: Path, make: Callable[[], str]) -> str:
    if path.is_file() and (text := path.read_text(encoding="utf-8").strip()):
        return text
    text = make()
    write_private(path, text + "\n")
    return text
