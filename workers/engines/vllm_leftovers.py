"""What vLLM's processes leave in the file system, kept track of so that the next engine can clear it away.

Its sockets go into a directory of ours, named after the process that owns it. In the same directory stand the names
of its shared memory, which nobody else could tell from other programs'.
"""

import os
import re
import shutil
import tempfile
from multiprocessing import resource_tracker
from pathlib import Path

import psutil

_PREFIX = "sluice-engine-"
_SHARED_MEMORY = Path("/dev/shm")
_NOTE = "shared-memory"
_MAPPED = re.compile(rf"{_SHARED_MEMORY}/(\S+)")


def own_directory() -> Path:
    """Make and return this process's directory; short, since paths of sockets may have 107 bytes only."""
    path = Path(tempfile.gettempdir()) / _name(psutil.Process())
    path.mkdir(mode=0o700, exist_ok=True)
    return path


def note_shared_memory(directory: Path) -> None:
    """Write down the shared memory that this process and its descendants use now."""
    family = [psutil.Process(), *psutil.Process().children(recursive=True)]
    names = {name for process in family for name in _mapped_by(process.pid)}
    (directory / _NOTE).write_text("\n".join(sorted(names)), encoding="utf-8")


def remove_leftovers() -> None:
    """Clear away what engines of dead processes of this user left."""
    living = {_name(process) for process in psutil.process_iter(["create_time"])}
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        if path.name not in living and path.is_dir() and path.stat().st_uid == os.getuid():
            remove(path)


def remove(directory: Path) -> None:
    """Remove a directory made by :func:`own_directory` and the shared memory that it names."""
    note = directory / _NOTE
    for name in note.read_text(encoding="utf-8").split() if note.is_file() else ():
        (_SHARED_MEMORY / Path(name).name).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def remove_own(directory: Path) -> None:
    """The same for a directory of this process, whose children are gone; Python must not clear up again at exit."""
    note = directory / _NOTE
    for name in note.read_text(encoding="utf-8").split() if note.is_file() else ():
        if (_SHARED_MEMORY / name).exists():
            kind = "semaphore" if name.startswith("sem.") else "shared_memory"
            resource_tracker.unregister("/" + name.removeprefix("sem."), kind)
    remove(directory)


def _name(process: psutil.Process) -> str:
    """Not the process id alone, which another process may have by then."""
    return f"{_PREFIX}{process.pid}-{int(process.create_time() * 100)}"


def _mapped_by(pid: int) -> set[str]:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")
    except OSError:
        return set()  # it ended
    return set(_MAPPED.findall(maps))
