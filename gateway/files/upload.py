"""The body of an upload, piece by piece: bounded in size and in time, and never held."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress

from gateway.body import ClientGone, announced_bytes
from gateway.connection import DataRequest
from gateway.errors import ApiError, Refusal, refuse

IDLE_S = 30.0
WHOLE_S = 600.0
PIECE_BYTES = 256 * 1024
FORM_BYTES = 64 * 1024
"""What a form may take beside its file."""
DRAIN_FACTOR = 2
"""A body that is refused is read on to so many times its bound, so that the client gets to read why."""


class UploadBody:
    """One body, to be read once."""

    def __init__(self, request: DataRequest) -> None:
        """Nothing has been read.

        Raises:
            ApiError: 400, a wrong content-length.
        """
        headers = request.scope["headers"]
        self._receive = request.receive
        self._type, self._parameters = request.content_type, request.content_params or {}
        self._asks_first = any(name == b"expect" for name, _ in headers)
        self._announced = announced_bytes(headers)
        self._read, self._over = 0, False
        self._ends_at = 0.0

    def boundary(self) -> str:
        """What stands between the parts of the form; "" if the client does not say.

        Raises:
            ApiError: 415, it sends no form.
        """
        if self._type != "multipart/form-data":
            raise refuse(
                Refusal.UNSUPPORTED_MEDIA_TYPE,
                "Send the file as a form, with 'Content-Type: multipart/form-data' and a boundary.",
            )
        return self._parameters.get("boundary", "")

    async def pieces(self, most_bytes: int, too_large: Callable[[], ApiError]) -> AsyncGenerator[bytes, None]:
        """Read it, in pieces of at least ``PIECE_BYTES`` but for the last.

        Args:
            most_bytes: of the whole body; ``too_large`` makes the error for a larger one.

        Raises:
            ApiError: what ``too_large`` makes; 408, it takes too long.
            ClientGone: the client left.
        """
        if self._announced > most_bytes:
            raise too_large()
        self._ends_at = asyncio.get_running_loop().time() + WHOLE_S
        held = bytearray()
        while not self._over:
            held += await self._next()
            if self._read > most_bytes:
                raise too_large()
            if len(held) >= PIECE_BYTES or self._over:
                yield bytes(held)
                held.clear()

    async def refused(self, error: ApiError, most_bytes: int) -> ApiError:
        """Read on what is no longer wanted, so that the client gets to read ``error``; or have the connection closed.

        Returns:
            The error to raise.

        Raises:
            ClientGone: the client left.
        """
        bound = DRAIN_FACTOR * most_bytes
        waits = self._asks_first and not self._read  # to be told that it may send
        with suppress(ApiError):  # too slow: the first reason stands
            while not (
                self._over or waits or max(self._announced, self._read) > bound or "connection" in error.headers
            ):
                await self._next()
        if not self._over:
            error.headers["connection"] = "close"
        return error

    async def _next(self) -> bytes:
        now = asyncio.get_running_loop().time()
        self._ends_at = self._ends_at or now + WHOLE_S
        if now >= self._ends_at:
            raise _too_slow()
        try:
            async with asyncio.timeout(min(IDLE_S, self._ends_at - now)):
                message = await self._receive()
        except TimeoutError:
            raise _too_slow() from None
        if message["type"] == "http.disconnect":
            raise ClientGone
        piece: bytes = message.get("body", b"")
        self._read += len(piece)
        self._over = not message.get("more_body", False)
        return piece


def _too_slow() -> ApiError:
    return refuse(Refusal.BODY_TOO_SLOW, headers={"connection": "close"})
