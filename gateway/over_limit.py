"""What a client is told whose request met a limit, or a queue that takes no more."""

from decimal import Decimal

from domain.limits import KINDS, Amount, Level, Limit, Span
from domain.waiting import come_back_ms, expected_wait_ms
from gateway.errors import ApiError, Refusal, refuse
from gateway.limit_headers import limit_headers
from workers.ready.item import NewItem
from workers.ready.verdict import Closed, OverLimit

REASONS = {name: Refusal.CONCURRENCY if name == "max_concurrent" else Refusal(name) for name in KINDS}
"""The refusal for each kind of limit."""

_WHOSE = {Level.TENANT: "Your plan's", Level.KEY: "This API key's"}
_WHO = {Level.TENANT: "your plan", Level.KEY: "this API key"}
_WHAT = {
    Amount.REQUESTS: "requests",
    Amount.INPUT: "prompt tokens",
    Amount.OUTPUT: "answer tokens",
    Amount.TOKENS: "tokens",
    Amount.COST: "of cost",
}
# OpenAI's clients take no retry-after that is longer, and would come back too early.
_LONG_MS = 60_000
_DRAINED_MS = 5_000


def over_limit(refused: OverLimit, item: NewItem) -> ApiError:
    """The error for a request that met a limit: which, whose, what is left, and when to come back."""
    headers = limit_headers(refused.tightest)
    if refused.retry_ms is None or refused.retry_ms > _LONG_MS:
        headers["x-should-retry"] = "false"
    retry_ms = None if refused.retry_ms is None else max(1, refused.retry_ms)
    return refuse(REASONS[refused.limit.name], _sentence(refused, item), retry_after_ms=retry_ms, headers=headers)


def _sentence(refused: OverLimit, item: NewItem) -> str:
    limit, kind = refused.limit, KINDS[refused.limit.name]
    cap, need, left = (_amount(limit, number) for number in (limit.cap, _need(limit, item), refused.left))
    if refused.retry_ms is None:
        return (
            f"This request may take {need} {_WHAT[kind.amount]}; {_WHO[limit.level]} allows {cap} per "
            f"{kind.span.value}. Lower max_tokens or shorten the prompt."
        )
    wait = f"Try again in {_duration(refused.retry_ms)}."
    if kind.span is Span.AT_ONCE:
        return f"{_WHOSE[limit.level]} limit of {cap} requests at once is reached. Wait for one to end."
    used_up = f"{_WHOSE[limit.level]} limit of {cap} {_WHAT[kind.amount]} per {kind.span.value}"
    if kind.amount is Amount.REQUESTS:
        return f"{used_up} is used up. {wait}"
    return f"{used_up} has {left} left and this request may take {need}. {wait}"


def _need(limit: Limit, item: NewItem) -> int:
    return {
        Amount.REQUESTS: 1,
        Amount.INPUT: item.prompt_tokens,
        Amount.OUTPUT: item.output_tokens,
        Amount.TOKENS: item.prompt_tokens + item.output_tokens,
        Amount.COST: item.most_cost_nano,
    }[KINDS[limit.name].amount]


def _amount(limit: Limit, number: int) -> str:
    if KINDS[limit.name].amount is not Amount.COST:
        return str(number)
    return f"{Decimal(number).scaleb(-9).quantize(Decimal('0.000001')).normalize():f}"


def _duration(ms: int) -> str:
    """``3.2 s``, ``7 min``, ``5 h`` or ``12 days``, never too short."""
    for unit, unit_ms in (("days", 86_400_000), ("h", 3_600_000), ("min", 60_000)):
        if ms >= 2 * unit_ms:
            return f"{-(-ms // unit_ms)} {unit}"
    return f"{ms / 1000:.3g} s"


def closed(refused: Closed, item: NewItem) -> ApiError:
    """The error for a request whose queue takes no more: why, how long it would have waited, when to come back."""
    expected_ms = expected_wait_ms(refused.latest_waits_ms, refused.oldest_ms)
    is_draining = refused.reason == "draining"
    retry_ms = max(_DRAINED_MS, expected_ms) if is_draining else come_back_ms(expected_ms)
    name = item.qos_class.value
    sentence = {
        "draining": f"An operator lets the queue of class {name} run empty; {refused.waiting} requests wait.",
        "queue_full": f"{refused.most} requests of class {name} are waiting already.",
        "queue_bytes": f"The {refused.waiting} requests of class {name} that wait fill {refused.most // 2**20} MiB.",
    }[refused.reason]
    estimate = f" Whoever is served now has waited about {_duration(expected_ms)}." if expected_ms else ""
    return refuse(
        Refusal.QUEUE_DRAINING if is_draining else Refusal.QUEUE_FULL,
        f"{sentence}{estimate} Try again in {_duration(retry_ms)}.",
        retry_after_ms=retry_ms,
        headers=limit_headers(refused.tightest),
    )
