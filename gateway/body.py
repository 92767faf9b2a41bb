"""Read a request's body: bounded in size and in time."""

import asyncio

from gateway.connection import Headers, Message, Receive
from gateway.errors import ApiError, Refusal, refuse

BODY_TIMEOUT_S = 60.0
# A body that is over the limit by less than this factor is read to its end and thrown away, so that the client gets
# the answer and may go on with the connection; of a larger one the connection is closed.
DRAIN_FACTOR = 8


class ClientGone(Exception):
    """The client left before it had sent its whole request."""


async def read_body(receive: Receive, headers: Headers, limit: int) -> bytes:
    """Return the whole body, at most ``limit`` bytes.

    Raises:
        ApiError: 413 for a larger body, 408 for one that takes too long, 400 for a wrong content-length.
        ClientGone: the client left.
    """
    announced = announced_bytes(headers)
    if announced > limit:
        await _drain_or_close(receive, headers, announced, limit)
        raise _too_large(limit)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            return await _read(receive, limit)
    except TimeoutError:
        raise refuse(Refusal.BODY_TOO_SLOW, headers={"connection": "close"}) from None


def announced_bytes(headers: Headers) -> int:
    """How long a body is said to be; 0 if nothing is said.

    Raises:
        ApiError: 400 for a wrong content-length.
    """
    found = [value for name, value in headers if name == b"content-length"]
    if not found:
        return 0
    if len(found) > 1 or not found[0].isdigit():
        raise refuse(Refusal.INVALID_HEADER, "The header 'Content-Length' is repeated or not a number.")
    return int(found[0])


async def _read(receive: Receive, limit: int) -> bytes:
    message = await _next(receive)
    first: bytes = message.get("body", b"")
    if not message.get("more_body", False):
        return _within(first, limit)
    parts, size = [first], len(first)
    while message.get("more_body", False):
        message = await _next(receive)
        part = message.get("body", b"")
        size += len(part)
        if size > limit * DRAIN_FACTOR:
            raise _too_large(limit, close=True)
        if size <= limit:
            parts.append(part)
    if size > limit:
        raise _too_large(limit)
    return b"".join(parts)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientGone
    return message


def _within(body: bytes, limit: int) -> bytes:
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def _drain_or_close(receive: Receive, headers: Headers, announced: int, limit: int) -> None:
    """Throw a small excess away; refuse at once what is far over, or what the client has not begun to send."""
    if announced > limit * DRAIN_FACTOR or any(name == b"expect" for name, _ in headers):
        raise _too_large(limit, close=True)
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            while (await _next(receive)).get("more_body", False):
                pass
    except TimeoutError:
        raise _too_large(limit, close=True) from None


def _too_large(limit: int, *, close: bool = False) -> ApiError:
    return refuse(
        Refusal.BODY_TOO_LARGE,
        f"The body is larger than {limit} bytes. Send a shorter one.",
        headers={"connection": "close"} if close else None,
    )
