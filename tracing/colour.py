"""The colour of a request: the ids that travel with it (requirement W13).

The RequestID is a UUID v4 whose first 12 hex digits are those of the trace id, so that a person who has one finds the
other.
"""

import re
import secrets
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass, replace

from tracing import names

_TRACEPARENT = re.compile(rb"^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$")
_ZERO_TRACE, _ZERO_SPAN = b"0" * 32, b"0" * 16


@dataclass(frozen=True, slots=True)
class Colour:
    """The ids of one request.

    Attributes:
        request_id: UUID v4, 36 characters.
        trace_id: 32 hex digits; the client's if it sent a valid W3C ``traceparent``.
        span_id: the gateway's own span, 16 hex digits.
        parent_id: span of the client's, 16 hex digits, or "".
        tenant_scope: ``<tenant>/<class>`` once known.
        model_version: once an engine has answered.
        batch_id: once claimed.
        linked_span_id: the span of the context before this one, whose ids were others; "" for a first one.
    """

    request_id: str
    trace_id: str
    span_id: str
    parent_id: str = ""
    tenant_scope: str = ""
    model_version: str = ""
    batch_id: str = ""
    linked_span_id: str = ""

    @property
    def traceparent(self) -> str:
        """W3C trace context for the next hop."""
        return f"00-{self.trace_id}-{self.span_id}-01"

    def changed(self, span_id: str, **ids: str) -> "Colour":
        """The context that begins where some of the ids change, linked with this one.

        Args:
            span_id: of the span that begins with it.
            ids: ``tenant_scope``, ``model_version`` or ``batch_id``.
        """
        return replace(self, span_id=span_id, linked_span_id=self.span_id, **ids)


current: ContextVar[Colour | None] = ContextVar("colour", default=None)


def begin(headers: Iterable[tuple[bytes, bytes]]) -> Colour:
    """Colour a new request from its raw ASGI headers.

    Only a well-formed, single ``traceparent`` is taken over; a request id that a client sends is never used.
    """
    found = [value for name, value in headers if name == names.TRACEPARENT_HEADER]
    match = _TRACEPARENT.match(found[0]) if len(found) == 1 else None
    random = secrets.token_hex(34)  # all that is random at once: each call asks the kernel
    if match and match[1] != _ZERO_TRACE and match[2] != _ZERO_SPAN:
        trace_id, parent_id = match[1].decode(), match[2].decode()
    else:
        trace_id, parent_id = random[:32], ""
    colour = Colour(_request_id(trace_id, random[48:]), trace_id, random[32:48], parent_id)
    current.set(colour)
    return colour


def _request_id(trace_id: str, random: str) -> str:
    """A UUID v4 that starts with the trace's first 12 hex digits; the rest is made of 19 random ones or more."""
    variant = "89ab"[int(random[18], 16) % 4]
    return f"{trace_id[:8]}-{trace_id[8:12]}-4{random[:3]}-{variant}{random[3:6]}-{random[6:18]}"
