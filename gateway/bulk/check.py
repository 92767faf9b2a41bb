"""Checks a job's file before any request of it is sent, and cuts it into slices."""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from domain.bulk.cut import lines_of_a_slice
from domain.bulk.line import BulkLine, LineError, read_line
from gateway.bulk.reading import Line, read_lines
from tenants.bulk.jobs import SliceCut

MAX_REQUESTS = 50_000
MAX_ERRORS = 100
"""More say nothing new."""


@dataclass(frozen=True, slots=True)
class Checked:
    """What a file holds.

    Attributes:
        model: of its first request, as clients name it; ``total`` requests.
        cuts: its slices.
        errors: OpenAI's objects of code, line, message and param; where there are any, the file is refused.
    """

    model: str
    total: int
    cuts: list[SliceCut]
    errors: list[dict[str, Any]]


def check_file(
    path: Path, endpoint: str, max_line_bytes: int, may_use: Callable[[str], str | None], alive: Callable[[], None]
) -> Checked:
    """Read a whole file; blocks for as long as that takes.

    Args:
        path: the file.
        endpoint: the address that all its lines are to ask.
        max_line_bytes: of a line.
        may_use: why a model cannot be used, as a sentence, or None.
        alive: called every now and then.

    Raises:
        OSError: it cannot be read.
    """
    check = _Check(endpoint, max_line_bytes, may_use)
    for line in read_lines(path, max_line_bytes):
        if check.is_enough:
            break
        check.take(line)
        if check.total % 1000 == 0:
            alive()
    return check.result()


class _Check:
    def __init__(self, endpoint: str, max_line_bytes: int, may_use: Callable[[str], str | None]) -> None:
        self._endpoint, self._max_line_bytes, self._may_use = endpoint, max_line_bytes, may_use
        self._seen: dict[bytes, int] = {}
        self._why_not: dict[str, str | None] = {}
        self._places: list[tuple[int, int, int]] = []
        self._errors: list[dict[str, Any]] = []
        self._model = ""
        self.total = 0

    @property
    def is_enough(self) -> bool:
        """It is refused already, and nothing more would help."""
        return len(self._errors) >= MAX_ERRORS or self.total > MAX_REQUESTS

    def take(self, line: Line) -> None:
        """Look at one line."""
        self.total += 1
        try:
            if line.is_too_long:
                raise LineError("request_too_large", f"This line has more than {self._max_line_bytes} bytes.")
            self._take(line, read_line(line.text, self._endpoint))
        except LineError as error:
            self._refuse(error.code, error.message, line.number, error.param)

    def _take(self, line: Line, asked: BulkLine) -> None:
        # A digest, since fifty thousand names may be long ones.
        digest = blake2b(asked.custom_id.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        first = self._seen.setdefault(digest, line.number)
        if first != line.number:
            raise LineError("duplicate_custom_id", f"This 'custom_id' is that of line {first} too.", "custom_id")
        if asked.model not in self._why_not:
            self._why_not[asked.model] = self._may_use(asked.model)
        why_not = self._why_not[asked.model]
        if why_not:
            raise LineError("model_not_found", why_not, "body.model")
        self._model = self._model or asked.model
        self._places.append((line.number, line.offset, line.end))

    def _refuse(self, code: str, message: str, line: int | None, param: str | None) -> None:
        shown = message.replace("\0", "\N{REPLACEMENT CHARACTER}")  # which Postgres does not take
        self._errors.append({"code": code, "line": line, "message": shown, "param": param})

    def result(self) -> Checked:
        """What it came to."""
        if self.total > MAX_REQUESTS:
            message = f"The file has more than {MAX_REQUESTS} requests. Make several batches of it."
            self._refuse("too_many_requests", message, None, "input_file_id")
        if not self.total:
            self._refuse("empty_file", "The file has no requests: it is empty.", None, "input_file_id")
        cuts = [] if self._errors else self._cut()
        return Checked(self._model, self.total, cuts, self._errors)

    def _cut(self) -> list[SliceCut]:
        each = lines_of_a_slice(self.total)
        groups = [self._places[at : at + each] for at in range(0, self.total, each)]
        return [SliceCut(group[0][0], len(group), group[0][1], group[-1][2] - group[0][1]) for group in groups]
