"""Processes that outlived their supervisor: the record of what runs, and how the next start ends the rest.

The kernel ends the children of a supervisor that was killed, but their own helpers may live on. ``children.json``
keeps each child's process id, which is its session's id too, with the tick of its start, so that a number that
has passed to a stranger is never mistaken for ours.
"""

import contextlib
import json
import os
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from gateway_admin.supervisor.files import write_private

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_GENTLY_S = 5.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Record:
    """One child.

    Attributes:
        name: of its unit.
        pid: of its leader, and the id of its session.
        start_tick: when it started, in clock ticks since boot.
    """

    name: str
    pid: int
    start_tick: int


def record_of(name: str, pid: int) -> Record:
    """The record of a child that has just been started and is not collected yet."""
    return Record(name, pid, _start_tick(pid) or 0)


def write_records(data_dir: Path, records: list[Record]) -> None:
    """Note what runs now.

    Raises:
        OSError: the data directory cannot be written.
    """
    content = {"boot_id": _boot_id(), "children": [asdict(record) for record in records]}
    write_private(records_path(data_dir), json.dumps(content, indent=2) + "\n")


def remove_records(data_dir: Path) -> None:
    """Nothing runs any more."""
    records_path(data_dir).unlink(missing_ok=True)


def records_path(data_dir: Path) -> Path:
    """Where the record of ``data_dir`` lives."""
    return data_dir / "children.json"


def read_records(data_dir: Path) -> list[Record]:
    """What an earlier supervisor noted; empty after an orderly stop, a reboot, or for a damaged file."""
    try:
        content = json.loads(records_path(data_dir).read_text())
        if content["boot_id"] != _boot_id():
            return []
        return [Record(**child) for child in content["children"]]
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return []


def end_strays(data_dir: Path) -> int:
    """End what is left of an earlier supervisor's children and wait for it; return how many processes there were.

    A process gets five seconds to follow a SIGTERM (Valkey writes its file), then SIGKILL.
    """
    sessions = [record.pid for record in read_records(data_dir) if not _is_stranger(record)]
    strays = _members(sessions)
    _send(strays, signal.SIGTERM)
    deadline = time.monotonic() + _GENTLY_S
    while (left := _members(sessions)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    _send(left, signal.SIGKILL)
    while _members(sessions) and time.monotonic() < deadline + _GENTLY_S:
        time.sleep(_POLL_S)
    remove_records(data_dir)
    return len(strays)


def _is_stranger(record: Record) -> bool:
    tick = _start_tick(record.pid)
    return tick is not None and tick != record.start_tick


def _members(sessions: list[int]) -> list[int]:
    found: list[int] = []
    for entry in os.listdir("/proc"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if entry.isdigit() and os.getsid(int(entry)) in sessions and _start_tick(int(entry)) is not None:
                found.append(int(entry))
    return found


def _send(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _start_tick(pid: int) -> int | None:
    """Clock ticks from boot to the start of ``pid``; None when it is gone or only waits to be collected."""
    try:
        # The name in parentheses may itself hold spaces and parentheses.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def _boot_id() -> str:
    return _BOOT_ID.read_text().strip()
