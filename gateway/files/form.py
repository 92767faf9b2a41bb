"""The form that uploads a file: its fields checked as they come, its file written to the disk."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from gateway.errors import ApiError
from gateway.files.filename import shown_name
from gateway.files.multipart import MalformedMultipart, Multipart, PartHead
from gateway.schema.fields import invalid
from gateway.schema.files import LONGEST_S, SHORTEST_S, UPLOADED

FILE, PURPOSE = "file", "purpose"
ANCHOR, SECONDS = "expires_after[anchor]", "expires_after[seconds]"
FIELDS = (FILE, PURPOSE, ANCHOR, SECONDS)
MAX_VALUE_BYTES = 256


class UploadForm:
    """One form on its way. Every method blocks; whoever feeds it calls :meth:`discard` unless the file is kept.

    Attributes:
        part: where the file is being written; None until it begins.
        size: bytes of it so far.
        filename: its name as it may be shown, once it has begun.
    """

    def __init__(
        self,
        boundary: str,
        new_part: Callable[[], Path],
        most_bytes: int,
        too_large: Callable[[], ApiError],
    ) -> None:
        """Nothing has come yet.

        Args:
            boundary: of the parts, as the content type gives it.
            new_part: makes an empty file on the disk.
            most_bytes: of the file; ``too_large`` makes the error for a larger one.

        Raises:
            ApiError: 400, there is no such boundary.
        """
        self.part: Path | None = None
        self.size = 0
        self.filename = ""
        self._new_part, self._most_bytes, self._too_large = new_part, most_bytes, too_large
        self._values: dict[str, bytearray] = {}
        self._field = ""
        self._out: BinaryIO | None = None
        try:
            self._multipart = Multipart(boundary, self)
        except MalformedMultipart as error:
            raise _malformed(error) from None

    @property
    def lives(self) -> timedelta | None:
        """For how long the file is to be kept, if the client said so; known once the form is whole."""
        return timedelta(seconds=int(self._values[SECONDS])) if SECONDS in self._values else None

    def feed(self, data: bytes) -> None:
        """Take the next piece of the body.

        Raises:
            ApiError: 400, with the field at fault; 413, or what else ``too_large`` makes.
            OSError: the disk does not take it.
        """
        try:
            self._multipart.feed(data)
        except MalformedMultipart as error:
            raise _malformed(error) from None

    def end(self) -> None:
        """The body is over: check that nothing is missing.

        Raises:
            ApiError: 400, with the field at fault.
        """
        try:
            self._multipart.end()
        except MalformedMultipart as error:
            raise _malformed(error) from None
        for name in (FILE, PURPOSE):
            if name not in self._values:
                raise invalid(name, f"Missing required parameter: '{name}'.", "missing_required_parameter")
        if (ANCHOR in self._values) != (SECONDS in self._values):
            raise invalid("expires_after", f"'expires_after' takes both fields, '{ANCHOR}' and '{SECONDS}', or none.")

    def discard(self) -> None:
        """Leave nothing on the disk."""
        self._close()
        if self.part is not None:
            self.part.unlink(missing_ok=True)

    # --- the parts, as they come ------------------------------------------------------------------------------------

    def begin(self, head: PartHead) -> None:
        """A field begins: each of those that there are may come once."""
        self._field = head.name
        if head.name not in FIELDS:
            shown = head.name[:100]
            raise invalid(shown, f"Unknown parameter: '{shown}'. Use {', '.join(FIELDS)}.", "unknown_parameter")
        if head.name in self._values:
            raise invalid(_param(head.name), f"'{head.name}' is repeated. Send it once.", "duplicate_parameter")
        self._values[head.name] = bytearray()
        if head.name == FILE:
            self.filename = shown_name(head.filename or "")
            self.part = self._new_part()
            self._out = self.part.open("wb", buffering=0)

    def take(self, data: bytes) -> None:
        """More of it."""
        if self._out is not None:
            self._write(data)
            return
        value = self._values[self._field]
        value += data
        if len(value) > MAX_VALUE_BYTES:
            raise invalid(_param(self._field), f"'{self._field}' is longer than {MAX_VALUE_BYTES} bytes.")

    def finish(self) -> None:
        """It is whole, and checked at once: nobody should send a large file only to hear that a word is wrong."""
        if self._out is not None:
            self._close()
            if not self.size:
                raise invalid(FILE, "The file is empty. Send one that has requests in it.")
        else:
            _check(self._field, self._values[self._field].decode("utf-8", "replace"))

    def _write(self, data: bytes) -> None:
        assert self._out is not None
        self.size += len(data)
        if self.size > self._most_bytes:
            raise self._too_large()
        rest = memoryview(data)
        while rest:
            rest = rest[self._out.write(rest) :]

    def _close(self) -> None:
        if self._out is not None:
            self._out.close()
            self._out = None


def _check(name: str, text: str) -> None:
    if name == PURPOSE and text != UPLOADED:
        raise invalid(
            PURPOSE,
            f"'purpose' must be '{UPLOADED}'. Files with the purpose 'batch_output' are made by batches, and there are "
            "no others.",
        )
    if name == ANCHOR and text != "created_at":
        raise invalid("expires_after", f"'{ANCHOR}' must be 'created_at'.")
    if name == SECONDS and not _is_time(text):
        raise invalid("expires_after", f"'{SECONDS}' must be a number from {SHORTEST_S} to {LONGEST_S}.")


def _is_time(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10 and SHORTEST_S <= int(text) <= LONGEST_S


def _param(name: str) -> str:
    return "expires_after" if name in (ANCHOR, SECONDS) else name


def _malformed(error: MalformedMultipart) -> ApiError:
    return invalid(None, f"The body is not a valid form: {error} Let an HTTP library write it.", "invalid_form")
