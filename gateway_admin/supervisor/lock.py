"""One supervisor for each data directory."""

import fcntl
import os
from pathlib import Path

from gateway_admin.supervisor.files import PRIVATE_FILE


class AlreadyRunning(Exception):
    """Another supervisor holds the data directory.

    Attributes:
        pid: its process id; 0 while it has not written it yet.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(f"already running (pid {pid})")
        self.pid = pid


class Lock:
    """An exclusive lock on a data directory, held through ``up.lock`` until :meth:`release` or death."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def take(cls, data_dir: Path) -> "Lock":
        """Take the lock of ``data_dir``.

        Raises:
            AlreadyRunning: another process holds it.
            OSError: the file cannot be created.
        """
        path = lock_path(data_dir)
        while True:
            # Python opens with O_CLOEXEC, so no child can keep the lock alive.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pid = _read_pid(descriptor)
                os.close(descriptor)
                raise AlreadyRunning(pid) from None
            if _is_same_file(descriptor, path):
                break
            # The holder before us removed the file between our open and our lock.
            os.close(descriptor)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(path, descriptor)

    def release(self) -> None:
        """Remove the file, then let go of it."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def lock_path(data_dir: Path) -> Path:
    """Where the lock of ``data_dir`` lives."""
    return data_dir / "up.lock"


def holder(data_dir: Path) -> int | None:
    """Process id of the supervisor of ``data_dir``; None when there is none, 0 when it is not known yet."""
    try:
        descriptor = os.open(lock_path(data_dir), os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_pid(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


def _read_pid(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).decode().strip()
    return int(text) if text.isdigit() else 0


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
