"""An item: one admitted request, as it waits, runs and ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from domain.limits import Limit
from domain.price import PriceRow, most_nano
from domain.qos import QosClass
from domain.usage import Usage


@dataclass(frozen=True, slots=True)
class Note:
    """What is noted of a request with an idempotency key.

    Attributes:
        name: names the key inside the store: tenant and digest.
        body: a digest of the body, to tell a repetition from another request.
        ttl_ms: for how long the key stays used once the request was answered.
        keep_ms: for how long the answer is kept for those who ask again; 0 for not at all.
    """

    name: str
    body: str
    ttl_ms: int
    keep_ms: int


@dataclass(frozen=True, slots=True)
class Sought:
    """The answer that a request could get without an engine.

    Attributes:
        key: names the answer: 32 hex digits.
        flight: names requests that may share one run: those with the same key that are answered in the same form;
            "" for one that shares none.
        reads: a kept answer will do; if not older than ``max_age_ms``.
        held: this gateway has the answer itself, made with this usage: the store only checks, counts and settles.
        held_version: of the model that made it.
        price_percent: what a kept or shared answer costs, and counts, of what it would if it were computed.
    """

    key: str
    flight: str
    reads: bool
    max_age_ms: int
    price_percent: int
    held: Usage | None = None
    held_version: str = ""


@dataclass(frozen=True, slots=True)
class NewItem:
    """What the gateway admits.

    Attributes:
        request_id: the RequestID.
        tenant: slug; ``tenant_id`` and ``key_id`` are the database's.
        body: the client's JSON, unchanged.
        limits: all that hold for it. What it may use of them is set aside until it is known what it really used.
        soft_limits: from which on its tenant is warned; nothing is refused.
        prices: that may apply to it, see :func:`domain.price.in_force`.
        prompt_tokens: of its prompt; ``output_tokens`` the most that all sequences together may make.
        sequences: sequences that the engine runs for it (``n`` times prompts).
        prefix: names of its prompt's prefixes, see :mod:`domain.prefix`.
        queue_ms: it is refused when it has waited so long.
        sought: the kept or shared answer that it may get; None if it has to be computed for itself.
        max_waiting: items that may wait in its queue; ``max_waiting_bytes`` bytes of their bodies, None for any.
    """

    request_id: str
    tenant: str
    tenant_id: int
    key_id: int
    limits: tuple[Limit, ...]
    soft_limits: tuple[Limit, ...]
    prices: tuple[PriceRow, ...]
    weight: float
    model: str
    qos_class: QosClass
    gateway_id: str
    endpoint: str
    stream: bool
    body: bytes
    cache_salt: str
    prompt_tokens: int
    output_tokens: int
    sequences: int
    traceparent: str
    prefix: bytes
    queue_ms: int
    max_waiting: int
    max_waiting_bytes: int | None
    note: Note | None = None
    sought: Sought | None = None

    @property
    def most_cost_nano(self) -> int:
        """Billionths of the currency's unit that it may cost at most."""
        return most_nano(self.prices, self.prompt_tokens, self.output_tokens)


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """What a worker holds under its lease; (batch_id, item_seq) names it inside its batch.

    Attributes:
        attempt: how often it was run before; ``causes`` tells why it was not finished, as ``cause@batch``, the first
            one first; ``delivered_text`` and ``delivered_ids`` what its client has already got.
        ready_ms: when it was put into the ready set, ms since 1970 by the store's clock; ``claimed_ms`` when it was
            claimed.
        prompt_tokens: as estimated at admission.
        need_tokens: KV cache that is reckoned with: prompt and expected output.
        on_trial: it was on an engine that died, and runs as the only suspect; until it has made ``trial_tokens`` more,
            or to its end where that is None.
    """

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
    delivered_ids: bytes
    traceparent: str
    ready_ms: int
    claimed_ms: int
    prompt_tokens: int
    need_tokens: int
    causes: tuple[str, ...] = ()
    on_trial: bool = False
    trial_tokens: int | None = None

    @property
    def waited_ms(self) -> int:
        """How long it waited for this claim."""
        return self.claimed_ms - self.ready_ms

    @property
    def last_cause(self) -> str:
        """Why the attempt before this one ended, without its batch; "" for a first attempt."""
        return self.causes[-1].partition("@")[0] if self.causes else ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A batch: the items claimed, how many still wait, and other workers that have room for them."""

    items: tuple[ClaimedItem, ...]
    waiting: int
    other_workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassRoom:
    """What a worker has free for one class.

    Attributes:
        qos_class: the class.
        seats: sequences.
        aged_seats: sequences once the class has aged, when it may use what is kept for more urgent ones (never P0's).
        ageing_ms: wait after which it has aged.
    """

    qos_class: QosClass
    seats: int
    aged_seats: int
    ageing_ms: int


@dataclass(frozen=True, slots=True)
class Room:
    """What a worker can take now.

    Attributes:
        classes: those it serves, most urgent first.
        idle: nothing runs: the first item is taken whatever its size.
        may_try: it may run a suspect.
        kv_tokens: KV cache free; None where the engine has none.
        prefill_tokens: prompt tokens that it may begin with, of ``max_prefill_tokens`` when none is under way.
        served_prefixes: prefix hashes that its KV cache holds at most.
    """

    classes: tuple[ClassRoom, ...]
    idle: bool = False
    may_try: bool = True
    kv_tokens: int | None = None
    prefill_tokens: int = 1_000_000
    max_prefill_tokens: int = 1_000_000
    served_prefixes: int = 4096

    def text(self) -> str:
        """The seats as the scripts take them: ``p0=3,p1=2``."""
        return ",".join(f"{one.qos_class.value}={max(0, one.seats)}" for one in self.classes)

    @property
    def seats(self) -> int:
        """Sequences free for the class that has the most."""
        return max((one.seats for one in self.classes), default=0)


@dataclass(frozen=True, slots=True)
class Affinity:
    """How far matching prefixes may bend the order.

    Attributes:
        slack_tokens: weighted tokens by which a match may overtake the fair order.
        balance: sequences by which two workers may differ for it.
        leave_ms: for how long an item is left to a worker that has its prefix, by class.
    """

    slack_tokens: int
    balance: int
    leave_ms: Mapping[QosClass, int]


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
        delivered_ids=fields.get(b"ids", b""),
        traceparent=text(b"trace"),
        ready_ms=int(fields[b"t_ready"]),
        claimed_ms=int(fields[b"t_claim"]),
        prompt_tokens=int(fields[b"prompt"]),
        need_tokens=int(fields[b"need"]),
        causes=tuple(text(b"causes").split(",")) if b"causes" in fields else (),
        on_trial=fields.get(b"trial") == b"1",
        trial_tokens=int(fields[b"trial_tokens"]) if fields.get(b"trial_tokens") else None,
    )
