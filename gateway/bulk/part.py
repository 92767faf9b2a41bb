"""The results of one slice, until they are put together: one line each, in the order in which they came.

A line is ``number is_answer prompt cached completion result``: five numbers and the line of the file that the tenant
gets (JSON), apart by spaces. Each attempt at a slice writes a file of its own; of several results for one request the
first counts. What a process that died had not written to its end is no result.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from domain.usage import Usage
from tenants.bulk.jobs import COUNTS

_SUFFIX = ".results"


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one request.

    Attributes:
        number: of its line in the job's file, from 1 on.
        is_answer: its status is below 400.
        usage: what it took.
        line: for the tenant (JSON, without a line break).
    """

    number: int
    is_answer: bool
    usage: Usage
    line: bytes

    def pack(self) -> bytes:
        """The line of the file."""
        usage = self.usage
        head = b"%d %d %d %d %d " % (
            *(self.number, self.is_answer),
            *(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens),
        )
        return head + self.line + b"\n"


@dataclass(slots=True)
class Tally:
    """What came of a slice's requests; ``numbers`` are the lines that have results."""

    numbers: set[int] = field(default_factory=set)
    completed: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def add(self, result: Result) -> bool:
        """Count one; False if its request has a result already."""
        if result.number in self.numbers:
            return False
        self.numbers.add(result.number)
        self.completed += result.is_answer
        self.failed += not result.is_answer
        self.prompt_tokens += result.usage.prompt_tokens
        self.cached_tokens += result.usage.cached_tokens
        self.completion_tokens += result.usage.completion_tokens
        return True

    def counts(self) -> dict[str, int]:
        """By the names of the database's columns."""
        return {name: getattr(self, name) for name in COUNTS}


class PartWriter:
    """Writes the results of one attempt; each is written at once, and safe once :meth:`sync` has returned."""

    def __init__(self, directory: Path, slice_number: int, attempt: int) -> None:
        """Begin a new file.

        Raises:
            OSError: it cannot be made, or is there already.
        """
        self._path = directory / f"{slice_number}-{attempt}{_SUFFIX}"
        self._is_empty = True
        self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND, 0o600)

    def write(self, result: Result) -> None:
        """Write one result.

        Raises:
            OSError: the disk does not take it.
        """
        self._is_empty = False
        data = memoryview(result.pack())
        while data:
            data = data[os.write(self._file, data) :]

    def sync(self) -> None:
        """Make everything written so far survive the machine; blocks."""
        os.fsync(self._file)

    def close(self) -> None:
        """Write no more. A file without results is removed: a job may wait for days, taken up again and again."""
        os.close(self._file)
        if self._is_empty:
            self._path.unlink(missing_ok=True)


def read_tally(directory: Path, slice_number: int) -> Tally:
    """Count the results that there are of a slice."""
    tally = Tally()
    for result in read_results(directory, slice_number):
        tally.add(result)
    return tally


def read_results(directory: Path, slice_number: int) -> Iterator[Result]:
    """All results of a slice, of all attempts; some requests may have several."""
    paths = sorted(directory.glob(f"{slice_number}-*{_SUFFIX}"), key=_attempt)
    for path in paths:
        with path.open("rb") as lines:
            for line in lines:
                if line.endswith(b"\n"):
                    yield _unpack(line)


def _attempt(path: Path) -> int:
    return int(path.name.removesuffix(_SUFFIX).partition("-")[2])


def _unpack(line: bytes) -> Result:
    number, is_answer, prompt, cached, completion, rest = line.split(b" ", 5)
    return Result(int(number), is_answer == b"1", Usage(int(prompt), int(cached), int(completion)), rest[:-1])
