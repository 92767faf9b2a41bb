"""The types of an ASGI connection, and the request that the data plane makes of one."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from io import BytesIO
from typing import Any, Protocol

from django.core.handlers.asgi import ASGIRequest
from rest_framework.request import Request

from tracing.colour import Colour

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

PRINCIPAL = "sluice.principal"
"""Key of a scope that this process made itself: whom the request is for. A server makes none such of what it reads."""

_NO_BODY = BytesIO()


class Answer(Protocol):
    """An answer that writes itself to the connection, as it comes."""

    async def send_to(self, receive: Receive, send: Send) -> None:
        """Write status, headers and body; watch for a client that leaves."""


class DataRequest(ASGIRequest):
    """A request whose body is still on its way, and which carries its colour.

    Attributes:
        receive: where the body comes from; a view reads it once it knows that the caller may send one.
        colour: the ids of the request.
    """

    def __init__(self, scope: Scope, receive: Receive, colour: Colour) -> None:
        super().__init__(scope, _NO_BODY)
        self.receive = receive
        self.colour = colour


def beneath(request: Request) -> DataRequest:
    """The data plane's own request under DRF's wrapper."""
    inner = request._request
    assert isinstance(inner, DataRequest)
    return inner
