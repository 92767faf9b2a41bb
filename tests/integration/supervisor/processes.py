"""What a process has left behind."""

import time
from collections.abc import Callable
from pathlib import Path

WAIT_S = 30.0
_POLL_S = 0.05


def is_alive(pid: int) -> bool:
    """Whether ``pid`` runs; one that only waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def mentioning(directory: Path) -> list[int]:
    """Process ids whose environment, command line or working files name ``directory``."""
    mark = str(directory).encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and is_alive(int(entry.name)):
            try:
                told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
            if mark in told:
                found.append(int(entry.name))
    return found


def wait_until(holds: Callable[[], object], what: str, within_s: float = WAIT_S) -> None:
    """Wait until ``holds()`` is true.

    Raises:
        AssertionError: it is not within ``within_s`` seconds.
    """
    deadline = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(_POLL_S)
