"""The children's log files: one each, the last few starts kept."""

import json
import os
from pathlib import Path

from gateway_admin.supervisor.files import PRIVATE_FILE, make_private_directory

KEPT = 3
_TAIL_BYTES = 64 * 1024
_SHORT = 200


class Logs:
    """The log directory of a data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "logs"
        make_private_directory(self.directory)

    def path(self, name: str) -> Path:
        """The log file of ``name``."""
        return self.directory / f"{name}.log"

    def rotate(self, name: str) -> None:
        """Move the log of an earlier start to ``.1``, that to ``.2``, and so on; the oldest goes."""
        path = self.path(name)
        if not path.exists():
            return
        for number in range(KEPT - 1, 0, -1):
            older = path.with_suffix(f".log.{number}")
            if older.exists():
                older.replace(path.with_suffix(f".log.{number + 1}"))
        path.replace(path.with_suffix(".log.1"))

    def open(self, name: str) -> int:
        """A descriptor that appends to the log of ``name``; the caller closes it."""
        return os.open(self.path(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)

    def tail(self, name: str, lines: int) -> list[str]:
        """The last ``lines`` lines that are not blank."""
        try:
            with self.path(name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return []
        return [line.rstrip() for line in text.splitlines() if line.strip()][-lines:]

    def last_line(self, name: str) -> str:
        """The last line, made short for a person; empty when there is none."""
        return _in_short("".join(self.tail(name, 1)))[-_SHORT:]


def _in_short(line: str) -> str:
    """The event of a line of JSON, with its reason or the last line of its traceback; other lines as they are."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line
    if not isinstance(entry, dict) or "event" not in entry:
        return line
    reason = entry.get("reason") or str(entry.get("exception", "")).rpartition("\n")[2]
    return f"{entry['event']}: {reason}" if reason else str(entry["event"])
