"""The lines of a job's file."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """One line that is not empty.

    Attributes:
        number: from 1 on, empty lines counted, as an editor does.
        offset: byte at which it begins; ``end`` byte after its line break.
        text: without the line break; empty where it was longer than allowed.
        is_too_long: it was.
    """

    number: int
    offset: int
    end: int
    text: bytes
    is_too_long: bool = False


def read_lines(path: Path, max_bytes: int, offset: int = 0, size: int | None = None, first: int = 1) -> Iterator[Line]:
    """Yield the lines of a part of a file, those of blanks left out; it never holds more than one of them.

    Args:
        path: the file.
        max_bytes: of a line.
        offset: byte at which to begin, where a line begins.
        size: bytes to read; None for all.
        first: number of the line at ``offset``.

    Raises:
        OSError: the file cannot be read.
    """
    end = None if size is None else offset + size
    number, at = first - 1, offset
    with path.open("rb") as file:
        file.seek(offset)
        while end is None or at < end:
            begin, number = at, number + 1
            text = file.readline(max_bytes + 2)
            if not text:
                return
            at += len(text)
            is_too_long = len(text.rstrip(b"\r\n")) > max_bytes
            while not text.endswith(b"\n") and (more := file.readline(1 << 20)):
                at, text = at + len(more), more
            if begin == 0:
                text = text.removeprefix(_BYTE_ORDER_MARK)
            if is_too_long or (text := text.strip()):
                yield Line(number, begin, at, b"" if is_too_long else text, is_too_long)
