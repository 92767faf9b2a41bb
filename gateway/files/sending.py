"""A file on its way to a client, piece by piece."""

import asyncio
import time
from contextlib import suppress

from django.utils.http import content_disposition_header

from gateway.connection import Receive, Send
from gateway.files.opened import OpenedFile
from tracing import names
from tracing.colour import Colour

PIECE_BYTES = 256 * 1024
STALL_S = 60.0
"""For how long a client may take nothing of the file."""


class FileAnswer:
    """Writes one file to an ASGI connection, and closes the file."""

    def __init__(self, file: OpenedFile, colour: Colour) -> None:
        self._file, self._colour, self._started = file, colour, time.monotonic()

    async def send_to(self, receive: Receive, send: Send) -> None:
        """Write status, headers and contents; ends when the file, the client or its patience ends.

        Raises:
            OSError: the disk does not give all of it; the client sees that it broke off.
        """
        watcher = asyncio.ensure_future(_until_gone(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers()})
            with suppress(TimeoutError):  # the server closes the connection of an answer that is not whole
                await self._send_contents(send, watcher)
        finally:
            watcher.cancel()
            self._file.close()

    async def _send_contents(self, send: Send, watcher: "asyncio.Future[None]") -> None:
        left = self._file.size
        while not watcher.done():
            piece = await self._file.read(min(left, PIECE_BYTES)) if left else b""
            if left and not piece:
                raise OSError("a file ended before its end")
            left -= len(piece)
            async with asyncio.timeout(STALL_S):
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
            if not left:
                return

    def _headers(self) -> list[tuple[bytes, bytes]]:
        took_ms = (time.monotonic() - self._started) * 1000
        shown = content_disposition_header(True, self._file.filename) or "attachment"
        return [
            (b"content-type", b"application/octet-stream"),
            (b"content-length", b"%d" % self._file.size),
            (b"content-disposition", shown.encode("ascii", "replace")),
            # It is a tenant's: no page of ours is to be made of it, and nobody on the way keeps it.
            (b"x-content-type-options", b"nosniff"),
            (b"cache-control", b"private, no-store"),
            (names.REQUEST_ID_HEADER, self._colour.request_id.encode()),
            (names.TRACERESPONSE_HEADER, self._colour.traceparent.encode()),
            (b"openai-processing-ms", b"%d" % took_ms),
            (b"openai-version", b"2020-10-01"),
        ]


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
