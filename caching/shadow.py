"""Last good answers on this machine's disk: outside the store and the engines whose failures they cover."""

import logging
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import diskcache

from caching.entry import Entry, unpack

log = logging.getLogger(__name__)

T = TypeVar("T")

PATIENCE_S = 0.5
"""An answer that has waited so long for another process to end its writing is not kept."""

RETRY_S = 10.0
"""A disk that could not be opened is left alone for so long."""

_ATTEMPTS = 10
_DATABASE = "cache.db"
_SETTINGS = {
    "eviction_policy": "least-recently-stored",  # the only order by age that a reader need not write for
    "tag_index": 1,
    # What is erased is overwritten: without this its pages keep it until something else needs them.
    "sqlite_secure_delete": 1,
}


class _BytesOnly(diskcache.Disk):  # type: ignore[misc]  # diskcache has no types
    """Never unpickles: a file that somebody else wrote is data, not a program."""

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        """See diskcache."""
        if mode not in (diskcache.core.MODE_RAW, diskcache.core.MODE_BINARY):
            raise ValueError("not an entry of this cache")
        return super().fetch(mode, filename, value, read)


class Shadow:
    """Entries by their key, bounded by bytes, the oldest going first. Several processes and threads may share one.

    Nothing here raises: without its disk it keeps nothing, finds nothing, counts that, and says so once. A broken
    database is thrown away. Calls block for as long as the disk takes: not for an event loop.

    Attributes:
        failures: calls that the disk failed.
    """

    def __init__(self, directory: Path, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is opened yet.

        Args:
            directory: its own; made with mode 0700 when it is first used.
            max_bytes: bound of everything on the disk, roughly.
            clock: seconds, never going back.
        """
        self.failures = 0
        self._directory, self._max_bytes, self._clock = directory, max_bytes, clock
        self._lock = threading.Lock()
        self._cache: diskcache.Cache | None = None
        self._file = 0
        self._closed_until_s = float("-inf")
        self._failing = False

    def put(self, key: bytes, entry: Entry, tag: str, expire_s: float) -> bool:
        """Keep an answer for some seconds, in place of what the key named; True if it is kept.

        Args:
            key: names the answer.
            entry: the answer.
            tag: whose it is; what :meth:`sweep` goes by.
            expire_s: seconds for which it is kept.
        """
        return self._try(lambda cache: bool(cache.set(key, entry.pack(), expire=expire_s, tag=tag)), False)

    def get(self, key: bytes) -> tuple[Entry, str] | None:
        """Look up an answer that is whole, and its tag; None if there is none."""
        return self._try(lambda cache: _read(cache, key), None)

    def sweep(self, stays: Callable[[str], bool]) -> int:
        """Remove the answers whose tag does not stay, from every file of the directory; return how many went."""
        return self._try(lambda cache: self._sweep(cache, stays), 0)

    def close(self) -> None:
        """Let the disk go; a later call opens it again. Connections end with the threads that made them."""
        with self._lock:
            if self._cache is not None:
                self._cache.close()
            self._cache = None

    # --- steps ------------------------------------------------------------------------------------------------------

    def _sweep(self, cache: diskcache.Cache, stays: Callable[[str], bool]) -> int:
        database = sqlite3.connect(self._directory / _DATABASE, timeout=PATIENCE_S, isolation_level=None)
        try:
            tags = [tag for (tag,) in database.execute("SELECT DISTINCT tag FROM Cache")]
            gone = [tag for tag in tags if not stays(str(tag))]
            removed = sum(int(cache.evict(tag, retry=True)) for tag in gone)
            if gone:
                _empty_log(database)
        finally:
            database.close()
        return removed

    def _try(self, what: Callable[[diskcache.Cache], T], instead: T) -> T:
        try:
            found = what(self._opened())
        except Exception as error:  # whatever a disk can do, nobody's request may fail for it
            self._note(error)
            return instead
        self._failing = False
        return found

    def _opened(self) -> diskcache.Cache:
        with self._lock:
            if self._cache is not None and self._file == _file_of(self._directory):
                return self._cache
            if self._clock() < self._closed_until_s:
                raise OSError("it could not be opened a moment ago")
            self._closed_until_s = self._clock() + RETRY_S
            self._cache = self._open()
            self._file = _file_of(self._directory)
            self._closed_until_s = float("-inf")
            return self._cache

    def _open(self) -> diskcache.Cache:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory.chmod(0o700)
        settings = {**_SETTINGS, "size_limit": self._max_bytes}
        return diskcache.Cache(str(self._directory), timeout=PATIENCE_S, disk=_BytesOnly, **settings)

    def _note(self, error: Exception) -> None:
        self.failures += 1
        if not self._failing:  # once for each time that it begins to fail
            log.warning("Last good answers are neither kept nor found: %s: %s", type(error).__name__, error)
        self._failing = True
        if _is_broken(error):
            with self._lock:
                self._cache = None
                self._closed_until_s = float("-inf")
                shutil.rmtree(self._directory, ignore_errors=True)


def _read(cache: diskcache.Cache, key: bytes) -> tuple[Entry, str] | None:
    packed, tag = cache.get(key, tag=True)
    entry = None if packed is None else unpack(packed)
    if entry is None:
        return None
    entry.text()  # raises if the disk gave back something else than was written
    return entry, str(tag)


def _empty_log(database: sqlite3.Connection) -> None:
    """Make the write-ahead log empty: it holds pages as they were before.

    Raises:
        OSError: others read or write all the time; the log is overwritten as they go on.
    """
    for _ in range(_ATTEMPTS):
        ((is_busy, _, _),) = database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not is_busy:
            return
    raise OSError("the log of the disk cache is in use, so it was not emptied")


def _is_broken(error: Exception) -> bool:
    """Whether the database's file is not a database; a full or locked disk is another kind of error."""
    return type(error) is sqlite3.DatabaseError


def _file_of(directory: Path) -> int:
    """Which file the database is; 0 if there is none, since somebody removed the directory."""
    try:
        return os.stat(directory / _DATABASE).st_ino
    except OSError:
        return 0
