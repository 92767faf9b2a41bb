"""One request through the data plane, made by this process itself."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gateway.connection import PRINCIPAL, Message, Receive, Scope, Send
from tenants.snapshot import Principal
from tracing import names

Plane = Callable[[Scope, Receive, Send], Awaitable[None]]
"""The data plane (:class:`gateway.handler.DataPlane`), as a server calls it."""


@dataclass(slots=True)
class Answered:
    """What came back.

    Attributes:
        status: HTTP status; 0 while there is none.
        headers: lower-case names.
        body: all of it (JSON).
    """

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def reason(self) -> str:
        """Why there is no answer, as the table of errors names it; "" for an answer."""
        return _read_error(self.body).reason if self.status >= 400 else ""

    @property
    def asks_not_to_retry(self) -> bool:
        """It says that sending it again would not help, or not for long."""
        return self.headers.get("x-should-retry") == "false"

    @property
    def retry_after_s(self) -> float:
        """When to come back; 0 if it does not say."""
        return int(self.headers.get("retry-after-ms", "0")) / 1000


class Call:
    """Made for one request."""

    def __init__(self, plane: Plane, path: str, body: bytes, traceparent: str, principal: Principal) -> None:
        self._plane, self._body = plane, body
        self._scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (names.TRACEPARENT_HEADER, traceparent.encode()),
            ],
            PRINCIPAL: principal,
        }
        self._is_read = False
        self._gone = asyncio.Event()
        self._answer = Answered()
        self._parts: list[bytes] = []

    async def answer(self) -> Answered:
        """Wait for the whole answer; of a request that was left its status is 0 or 499."""
        await self._plane(self._scope, self._receive, self._send)
        self._answer.body = b"".join(self._parts)
        return self._answer

    def leave(self) -> None:
        """As a client does that closes its connection: the request ends everywhere."""
        self._gone.set()

    async def _receive(self) -> Message:
        if not self._is_read:
            self._is_read = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._answer.status = message["status"]
            self._answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            self._parts.append(message.get("body", b""))


class _Error(msgspec.Struct):
    reason: str = ""
    code: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Error


def _read_error(body: bytes) -> _Error:
    try:
        return msgspec.json.decode(body, type=_ErrorBody).error
    except msgspec.DecodeError:
        return _Error()
