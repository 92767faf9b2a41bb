"""Requests that a client may send again: what carries an ``Idempotency-Key`` runs once.

A note in the store (``workers/ready/lua/idempotency.lua``) is made by the script that admits the first request and
resolved by the one that ends it. A repetition meets the note in its own admission, before all limits, so it costs
nothing: it gets the first one's answer where the plan lets answers be kept, else 409. An answer that was not given in
full frees the key, so that the client's retry runs.
"""

import time
import zlib
from collections.abc import Iterable
from hashlib import blake2b

from redis.exceptions import RedisError

from domain.config import Config
from gateway.connection import Receive, Send
from gateway.errors import Refusal, refuse
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing import logs, metrics
from workers.ready.item import Note
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Repeated

log = logs.get(__name__)

HEADER = b"idempotency-key"
MAX_KEY_LENGTH = 255
MAX_ANSWER_BYTES = 2 * 1024 * 1024
"""Longer answers are not kept: all that is kept shares the store's memory."""
_DIGEST_BYTES = 16
_FASTEST = 1

_REFUSALS = {
    "running": Refusal.IDEMPOTENCY_IN_PROGRESS,
    "used": Refusal.IDEMPOTENCY_KEY_USED,
    "other_body": Refusal.IDEMPOTENCY_KEY_REUSED,
}


def read_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The key that a request carries; None for none.

    Raises:
        ApiError: 400, it is repeated, empty, too long, or not printable ASCII.
    """
    found = [value for name, value in headers if name == HEADER]
    if not found:
        return None
    if len(found) > 1:
        raise refuse(Refusal.INVALID_HEADER, "The header 'Idempotency-Key' is repeated. Send one key.")
    key = found[0]
    if not 1 <= len(key) <= MAX_KEY_LENGTH or not all(0x20 <= byte <= 0x7E for byte in key):
        raise refuse(
            Refusal.INVALID_HEADER,
            f"The header 'Idempotency-Key' must be 1 to {MAX_KEY_LENGTH} printable ASCII characters, such as a UUID.",
        )
    return key.decode()


def make_note(config: Config, principal: Principal, ask: Ask, body: bytes) -> Note | None:
    """What admission notes of a request; None if it carries no key. Keys of other tenants and endpoints are others."""
    if ask.idempotency_key is None:
        return None
    whole = f"{principal.tenant_id}\n{ask.endpoint}\n{ask.idempotency_key}"
    ttl_ms = config.idempotency_ttl_s * 1000
    return Note(
        name=f"{principal.tenant_id}:{digest(whole.encode())}",
        body=digest(body),
        ttl_ms=ttl_ms,
        keep_ms=min(ttl_ms, principal.retention_hours * 3_600_000),
    )


def given_again(repeated: Repeated) -> Repeated:
    """A repetition that gets the first one's answer.

    Raises:
        ApiError: 409 or 422: it gets none.
    """
    if repeated.what == "done":
        return repeated
    headers = {"x-sluice-original-request-id": repeated.request_id}
    if repeated.what != "running":
        headers["x-should-retry"] = "false"
    raise refuse(_REFUSALS[repeated.what], headers=headers)


class Keeper:
    """Writes an answer down for those who ask again, once its client has it."""

    def __init__(self, ready: ReadySet, request_id: str, keep_ms: int) -> None:
        self._ready, self._request_id, self._keep_ms = ready, request_id, keep_ms
        self._packer = zlib.compressobj(_FASTEST)
        self._parts: list[bytes] = []
        self._size = 0

    def take(self, data: bytes) -> None:
        """Take the next bytes of the body, as they went to the client."""
        self._size += len(data)
        if self._size > MAX_ANSWER_BYTES:
            self._parts.clear()
        else:
            self._parts.append(self._packer.compress(data))

    async def keep(self) -> None:
        """Write it down; an answer that is too long, or a store that is away, leaves those who ask again with 409."""
        if self._size > MAX_ANSWER_BYTES:
            return
        try:
            await self._ready.keep_answer(self._request_id, b"".join(self._parts) + self._packer.flush(), self._keep_ms)
        except (RedisError, OSError) as error:
            log.warning("answer_not_kept", request_id=self._request_id, error=str(error))


class Replay:
    """The answer of the first request, given again."""

    def __init__(self, repeated: Repeated, request_id: str, started: float, *, stream: bool) -> None:
        self._repeated, self._request_id, self._started, self._stream = repeated, request_id, started, stream

    async def send_to(self, receive: Receive, send: Send) -> None:
        """Write status, headers and body; all is there, so nobody is waited for."""
        original = self._repeated.request_id
        body = zlib.decompress(self._repeated.answer)
        took_ms = (time.monotonic() - self._started) * 1000
        headers = [
            (b"x-request-id", self._request_id.encode()),
            (b"x-sluice-idempotent-replayed", b"true"),
            (b"x-sluice-original-request-id", original.encode()),
            (b"openai-processing-ms", b"%d" % took_ms),
            (b"openai-version", b"2020-10-01"),
        ]
        if self._stream:
            headers += [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        else:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        metrics.replays.inc()
        log.info("answer_replayed", request_id=self._request_id, original_request_id=original)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})


def digest(data: bytes) -> str:
    """32 hex digits by which a key or a body is known again."""
    return blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()
