"""A body of an upload is bounded in size and in time, and read on only for the client to learn why it is refused."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from gateway.body import ClientGone
from gateway.connection import DataRequest, Message
from gateway.errors import ApiError, Refusal, refuse
from gateway.files import upload
from gateway.files.upload import DRAIN_FACTOR, UploadBody
from tracing.colour import begin

MOST = 1000


def too_large() -> ApiError:
    return refuse(Refusal.BODY_TOO_LARGE)


class Sender:
    """A client that sends some pieces, and then the end, nothing more, or leaves."""

    def __init__(self, pieces: Iterable[bytes], then: str = "ends") -> None:
        self._pieces, self._then = list(pieces), then
        self.asked = 0

    async def receive(self) -> Message:
        """The next of them."""
        self.asked += 1
        if self._pieces:
            piece = self._pieces.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._pieces) or self._then != "ends"}
        if self._then == "leaves":
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")


def body_of(sender: Sender, **headers: str) -> UploadBody:
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/v1/files",
        "headers": [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()],
    }
    return UploadBody(DataRequest(scope, sender.receive, begin(())))


async def read(body: UploadBody) -> list[bytes]:
    return [piece async for piece in body.pieces(MOST, too_large)]


async def test_small_pieces_are_put_together_and_nothing_is_lost() -> None:
    sender = Sender([b"a" * 10, b"", b"b" * 20])

    assert await read(body_of(sender)) == [b"a" * 10 + b"b" * 20]


async def test_a_body_that_is_announced_too_large_is_refused_unread() -> None:
    sender = Sender([])

    with pytest.raises(ApiError) as caught:
        await read(body_of(sender, content_length=str(MOST + 1)))

    assert (caught.value.status, sender.asked) == (413, 0)


async def test_a_body_that_grows_too_large_is_refused() -> None:
    with pytest.raises(ApiError) as caught:
        await read(body_of(Sender([b"a" * MOST, b"b"])))

    assert caught.value.status == 413


@pytest.mark.parametrize("bound", ["IDLE_S", "WHOLE_S"])
async def test_a_client_that_falls_silent_is_refused(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(upload, bound, 0.01)

    with pytest.raises(ApiError) as caught:
        await read(body_of(Sender([b"a"], "stays")))

    assert (caught.value.status, caught.value.headers["connection"]) == (408, "close")


async def test_a_client_that_never_ends_is_refused_also_if_it_is_never_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "WHOLE_S", 0.0)

    with pytest.raises(ApiError) as caught:
        await read(body_of(Sender([b"a"] * 10)))

    assert caught.value.status == 408


async def test_a_client_that_leaves_is_gone() -> None:
    with pytest.raises(ClientGone):
        await read(body_of(Sender([b"a"], "leaves")))


async def test_what_is_refused_is_read_to_its_end_so_that_the_connection_goes_on() -> None:
    sender = Sender([b"a" * 600, b"b" * 600, b"c" * 600])

    error = await body_of(sender).refused(refuse(Refusal.INVALID_BODY), MOST)

    assert ("connection" in error.headers, sender.asked) == (False, 3)


@pytest.mark.parametrize(
    ("sender", "headers"),
    [
        (Sender([b"a" * MOST] * (DRAIN_FACTOR + 2)), {}),
        (Sender([]), {"content_length": str(DRAIN_FACTOR * MOST + 1)}),
        (Sender([]), {"expect": "100-continue"}),
    ],
)
async def test_the_connection_is_closed_where_too_much_would_come_or_the_client_waits(
    sender: Sender, headers: dict[str, str]
) -> None:
    error = await body_of(sender, **headers).refused(refuse(Refusal.INVALID_BODY), MOST)

    assert error.headers["connection"] == "close"


async def test_whoever_is_refused_and_then_falls_silent_keeps_the_first_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "IDLE_S", 0.01)

    error = await body_of(Sender([b"a"], "stays")).refused(refuse(Refusal.INVALID_BODY), MOST)

    assert (error.status, error.headers["connection"]) == (400, "close")


@pytest.mark.parametrize("content_type", ["application/json", "application/x-www-form-urlencoded", "multipart/mixed"])
def test_what_is_no_form_is_refused_with_what_to_send(content_type: str) -> None:
    with pytest.raises(ApiError) as caught:
        body_of(Sender([]), content_type=content_type).boundary()

    assert caught.value.status == 415
    assert "multipart/form-data" in caught.value.message
