"""multipart/form-data (RFC 7578), split into its parts as it comes: no more than a head of a part is ever held.

The splitting is python-multipart's. Django's parser takes a body that breaks off for one that ended; here it has to
end with its last boundary.
"""

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from python_multipart import MultipartParser
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import parse_options_header

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MAX_HEAD_BYTES = 4096
MAX_HEADERS = 16

_PLAIN_ENCODINGS = frozenset({b"7bit", b"8bit", b"binary"})

# It logs the characters that it did not expect, which are the tenant's.
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)


class MalformedMultipart(Exception):
    """The body is not what its content type says; the message says why, for a person."""


@dataclass(frozen=True, slots=True)
class PartHead:
    """What stands above a part: its field, and the name of the file, None where none is given."""

    name: str
    filename: str | None


class Parts(Protocol):
    """Who takes the parts. What its methods raise goes through to whoever feeds."""

    def begin(self, head: PartHead) -> None:
        """A part begins."""

    def take(self, data: bytes) -> None:
        """More of it."""

    def finish(self) -> None:
        """It is whole."""


class Multipart:
    """Splits one body."""

    def __init__(self, boundary: str, parts: Parts) -> None:
        """Nothing has come yet.

        Raises:
            MalformedMultipart: that can be no boundary.
        """
        if not boundary or not boundary.isascii() or not boundary.isprintable() or boundary.endswith(" "):
            raise MalformedMultipart("The header 'Content-Type' gives no valid boundary.")
        self._parts = parts
        self._is_over = False
        self._head: dict[bytes, bytes] = {}
        self._name, self._value = bytearray(), bytearray()
        callbacks: MultipartCallbacks = {
            "on_part_begin": self._head.clear,
            "on_header_field": self._take_name,
            "on_header_value": self._take_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._begin_part,
            "on_part_data": self._take_data,
            "on_part_end": parts.finish,
            "on_end": self._end_form,
        }
        try:
            self._parser = MultipartParser(
                boundary, callbacks, max_header_count=MAX_HEADERS, max_header_size=MAX_HEAD_BYTES
            )
        except FormParserError:
            raise MalformedMultipart("The header 'Content-Type' gives a boundary that is too long.") from None

    def feed(self, data: bytes) -> None:
        """Take the next piece of the body, however it was cut.

        Raises:
            MalformedMultipart: it cannot be split.
        """
        if self._is_over:  # what comes after the last boundary means nothing
            return
        try:
            self._parser.write(data)
        except FormParserError:
            raise MalformedMultipart("A boundary or the head of a part is not where it should be.") from None

    def end(self) -> None:
        """The body is over.

        Raises:
            MalformedMultipart: its last boundary is missing.
        """
        if not self._is_over:
            raise MalformedMultipart("The form breaks off before its last boundary.")

    def _take_name(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _take_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _end_header(self) -> None:
        name = bytes(self._name).lower()
        if name in self._head:
            raise MalformedMultipart("A part has a header twice.")
        self._head[name] = bytes(self._value)
        self._name.clear()
        self._value.clear()

    def _begin_part(self) -> None:
        self._parts.begin(_read_head(self._head))

    def _take_data(self, data: bytes, start: int, end: int) -> None:
        self._parts.take(data[start:end])

    def _end_form(self) -> None:
        self._is_over = True


def _read_head(head: dict[bytes, bytes]) -> PartHead:
    if head.get(b"content-transfer-encoding", b"binary").strip().lower() not in _PLAIN_ENCODINGS:
        raise MalformedMultipart("A part has a 'Content-Transfer-Encoding'. Send its bytes as they are.")
    kind, given = parse_options_header(head.get(b"content-disposition"))
    if kind != b"form-data" or b"name" not in given:
        raise MalformedMultipart("A part's 'Content-Disposition' must read 'form-data; name=\"...\"'.")
    filename = given.get(b"filename")
    name = given[b"name"].decode("utf-8", "replace")
    return PartHead(name, None if filename is None else filename.decode("utf-8", "replace"))
