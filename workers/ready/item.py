"""An item: one admitted request, as it waits, runs and ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.qos import QosClass
from domain.usage import Usage


@dataclass(frozen=True, slots=True)
class NewItem:
    """What the gateway admits.

    Attributes:
        request_id: the RequestID.
        tenant: slug; ``tenant_id`` and ``key_id`` are the database's.
        body: the client's JSON, unchanged.
        reserve_tokens: prompt (estimated) and most output tokens, taken from the tenant's minute until it is known
            what was really used.
        cost: tokens that the fair order counts.
        sequences: sequences that the engine runs for it (``n`` times prompts).
    """

    request_id: str
    tenant: str
    tenant_id: int
    key_id: int
    requests_per_minute: int | None
    tokens_per_minute: int | None
    max_concurrent: int | None
    weight: float
    model: str
    qos_class: QosClass
    gateway_id: str
    endpoint: str
    stream: bool
    body: bytes
    cache_salt: str
    reserve_tokens: int
    cost: int
    sequences: int
    traceparent: str


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """What a worker holds under its lease; (batch_id, item_seq) names it inside its batch."""

    request_id: str
    tenant: str
    model: str
    qos_class: QosClass
    gateway_id: str
    endpoint: str
    stream: bool
    body: bytes
    cache_salt: str
    priority: int
    sequences: int
    attempt: int
    batch_id: str
    item_seq: int
    delivered_text: str
    delivered_tokens: int
    traceparent: str
    waited_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch: the items claimed, how many still wait, and another worker that has room for them (or "")."""

    items: tuple[ClaimedItem, ...]
    waiting: int
    other_worker: str


@dataclass(frozen=True, slots=True)
class Admitted:
    """The item waits in the ready set. Limits are None where the plan sets none."""

    ring: bool
    requests_left: int | None
    requests_reset_ms: int
    tokens_left: int | None
    tokens_reset_ms: int


@dataclass(frozen=True, slots=True)
class Refused:
    """The item was not admitted.

    Attributes:
        reason: "concurrency", "requests", "tokens", "request_too_large" or "queue_full".
        limit: the limit that was met; ``left`` what is left of it.
        retry_ms: when it may pass; 0 if it never will.
    """

    reason: str
    limit: int
    left: int
    retry_ms: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How a worker ends an item: outcome, HTTP status, OpenAI error code or "", tokens, first token (ms) or None."""

    outcome: str
    status: int
    code: str
    usage: Usage
    first_token_ms: int | None


def decode_claimed(request_id: bytes, body: bytes | None, flat: Sequence[bytes]) -> ClaimedItem:
    """Read an item as the claim script returns it: a flat list of names and values."""
    fields: Mapping[bytes, bytes] = dict(zip(flat[::2], flat[1::2], strict=True))

    def text(name: bytes, default: bytes = b"") -> str:
        return fields.get(name, default).decode()

    return ClaimedItem(
        request_id=request_id.decode(),
        tenant=text(b"tenant"),
        model=text(b"model"),
        qos_class=QosClass(text(b"class")),
        gateway_id=text(b"gw"),
        endpoint=text(b"endpoint"),
        stream=fields[b"stream"] == b"1",
        body=body or b"",
        cache_salt=text(b"salt"),
        priority=int(fields[b"prio"]),
        sequences=int(fields[b"seqs"]),
        attempt=int(fields[b"attempt"]),
        batch_id=text(b"batch"),
        item_seq=int(fields[b"seq"]),
        delivered_text=text(b"text"),
        delivered_tokens=int(fields.get(b"text_tokens", b"0")),
        traceparent=text(b"trace"),
        waited_ms=int(fields[b"t_claim"]) - int(fields[b"t_admit"]),
    )
