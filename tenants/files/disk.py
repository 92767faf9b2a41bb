"""Where the contents of tenants' files lie: a directory that all gateways and bulk processes see.

Names on the disk are ours, never a tenant's. What is under way has a name that ends in ``.part`` and becomes a file by
being renamed, so that a file is there whole or not at all.
"""

import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

_FILE_ID = re.compile(r"file-[0-9a-f]{24}")
_JOB_ID = re.compile(r"batch_[0-9a-f]{24}")
_PART = ".part"
_DIRECTORY_MODE = 0o700


def make_file_id() -> str:
    """Draw an id: 96 bits, so that none can be guessed."""
    return f"file-{secrets.token_hex(12)}"


def make_job_id() -> str:
    """Draw a bulk job's id, likewise."""
    return f"batch_{secrets.token_hex(12)}"


def is_file_id(text: str) -> bool:
    """Whether it has the form of a file's id."""
    return _FILE_ID.fullmatch(text) is not None


def is_job_id(text: str) -> bool:
    """Whether it has the form of a bulk job's id."""
    return _JOB_ID.fullmatch(text) is not None


class FileDisk:
    """Contents of files, by id. Every method blocks."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, file_id: str) -> Path:
        """Where a file lies, or will.

        Raises:
            ValueError: that is no id of a file.
        """
        if not is_file_id(file_id):
            raise ValueError(f"{file_id!r} is no id of a file")
        return self._root / file_id[5:7] / file_id

    def new_part(self) -> Path:
        """A new, empty file under way, readable by nobody else; :meth:`keep` makes it a file.

        Raises:
            OSError: the directory cannot be written.
        """
        self._root.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        part = self._root / f"{secrets.token_hex(12)}{_PART}"
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return part

    def keep(self, part: Path, file_id: str) -> int:
        """Make what is under way a file, for good; return its bytes.

        Raises:
            OSError: the disk does not take it.
        """
        path = self.path(file_id)
        path.parent.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        with part.open("rb") as written:
            os.fsync(written.fileno())
        part.rename(path)
        return path.stat().st_size

    def remove(self, file_id: str) -> None:
        """Remove a file's contents; nothing if there are none."""
        self.path(file_id).unlink(missing_ok=True)

    def job_directory(self, job_id: str) -> Path:
        """Where the results of a bulk job lie until they are put together.

        Raises:
            ValueError: that is no id of a bulk job.
        """
        if not is_job_id(job_id):
            raise ValueError(f"{job_id!r} is no id of a bulk job")
        return self._root / "jobs" / job_id

    def make_job_directory(self, job_id: str) -> Path:
        """The same, made if it is not there."""
        directory = self.job_directory(job_id)
        directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        return directory

    def remove_job(self, job_id: str) -> None:
        """Remove a job's results; nothing if there are none."""
        shutil.rmtree(self.job_directory(job_id), ignore_errors=True)

    def file_ids(self, older_than_s: float) -> Iterator[str]:
        """Ids of the files that lie here since longer than that."""
        for path in self._root.glob("??/file-*"):
            if is_file_id(path.name) and _age_s(path) > older_than_s:
                yield path.name

    def job_ids(self, older_than_s: float) -> Iterator[str]:
        """Ids of the jobs of which results lie here, unchanged for longer than that."""
        for path in self._root.glob("jobs/batch_*"):
            if is_job_id(path.name) and _age_s(path) > older_than_s:
                yield path.name

    def remove_parts(self, older_than_s: float) -> int:
        """Remove what was begun so long ago that nobody writes it any more; return how many."""
        old = [path for path in self._root.glob(f"*{_PART}") if _age_s(path) > older_than_s]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)


def _age_s(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
