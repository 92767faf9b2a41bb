"""Rows as CSV (RFC 4180), safe to open in a spreadsheet."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class CsvWriter:
    """Makes text of rows, piece by piece."""

    def __init__(self) -> None:
        self._buffer = StringIO()
        self._writer = csv.writer(self._buffer)

    def write(self, rows: Iterable[Iterable[Any]]) -> bytes:
        """The rows as UTF-8. None is empty; text that a spreadsheet would run as a formula gets a ' before it."""
        self._writer.writerows([_harmless(value) for value in row] for row in rows)
        text = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        return text.encode()


class Exact(str):
    """A number as text, which may begin with a minus."""

    __slots__ = ()


def _harmless(value: Any) -> Any:
    if isinstance(value, str) and not isinstance(value, Exact) and value.startswith(_STARTS_A_FORMULA):
        return f"'{value}"
    return value
