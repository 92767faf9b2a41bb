"""What a client is told whose request met a limit or a full queue."""

from datetime import UTC, datetime

import pytest

from domain.limits import KINDS, Level, Limit
from domain.price import PriceRow
from domain.qos import QosClass
from gateway.limit_headers import answer_headers
from gateway.over_limit import REASONS, closed, over_limit
from workers.ready.item import NewItem
from workers.ready.verdict import Admitted, Allowance, Closed, OverLimit, Tightest

DAY_MS = 86_400_000
NANO = 10**9
TIGHTEST = Tightest(
    Allowance(Limit(Level.TENANT, "requests_per_minute", 60), 0, 60_000),
    Allowance(Limit(Level.KEY, "tokens_per_month", 10**9), 123_456_789, 20 * DAY_MS + 1),
)
ITEM = NewItem(
    request_id="r1",
    tenant="acme",
    tenant_id=1,
    key_id=2,
    limits=(),
    soft_limits=(Limit(Level.TENANT, "tokens_per_month", 1000), Limit(Level.TENANT, "cost_per_month", 5 * NANO)),
    prices=(PriceRow(1, "", "", datetime(2026, 1, 1, tzinfo=UTC), 1_000_000, 0, 2_000_000),),
    weight=1.0,
    model="m",
    qos_class=QosClass.P1,
    gateway_id="g1",
    endpoint="chat",
    stream=True,
    body=b"{}",
    cache_salt="",
    prompt_tokens=100,
    output_tokens=50,
    sequences=1,
    traceparent="",
    prefix=b"",
    queue_ms=1,
    max_waiting=1,
    max_waiting_bytes=None,
)


def refused(level: Level, name: str, cap: int, left: int, retry_ms: int | None) -> OverLimit:
    return OverLimit(Limit(level, name, cap), left, retry_ms, TIGHTEST)


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (
            refused(Level.TENANT, "requests_per_minute", 60, 0, 950),
            "Your plan's limit of 60 requests per minute is used up. Try again in 0.95 s.",
        ),
        (
            refused(Level.KEY, "requests_per_day", 5, 0, 7_200_000),
            "This API key's limit of 5 requests per day is used up. Try again in 2 h.",
        ),
        (
            refused(Level.TENANT, "max_concurrent", 3, 0, 1_000),
            "Your plan's limit of 3 requests at once is reached. Wait for one to end.",
        ),
        (
            refused(Level.KEY, "input_tokens_per_minute", 120, 20, 300_000),
            "This API key's limit of 120 prompt tokens per minute has 20 left and this request may take 100. "
            "Try again in 5 min.",
        ),
        (
            refused(Level.TENANT, "output_tokens_per_day", 40, 40, None),
            "This request may take 50 answer tokens; your plan allows 40 per day. "
            "Lower max_tokens or shorten the prompt.",
        ),
        (
            refused(Level.TENANT, "cost_per_month", 100 * NANO, 150_000_000, 12 * DAY_MS - 5),
            "Your plan's limit of 100 of cost per month has 0.15 left and this request may take 0.2. "
            "Try again in 12 days.",
        ),
    ],
)
def test_the_message_says_which_limit_whose_what_is_left_and_when(refusal: OverLimit, message: str) -> None:
    assert over_limit(refusal, ITEM).message == message


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_a_reason_and_months_are_insufficient_quota(name: str) -> None:
    error = over_limit(refused(Level.KEY, name, 10, 1, 5_000), ITEM)
    assert (error.status, error.reason) == (429, REASONS[name].value)
    kind = ("insufficient_quota", "insufficient_quota")
    assert (error.type, error.code) == (kind if name.endswith("month") else ("rate_limit_error", "rate_limit_exceeded"))
    assert error.headers["retry-after"] == "5"


@pytest.mark.parametrize(("retry_ms", "told"), [(None, "false"), (60_001, "false"), (60_000, None), (1_000, None)])
def test_who_would_come_back_in_vain_is_told_so(retry_ms: int | None, told: str | None) -> None:
    error = over_limit(refused(Level.TENANT, "tokens_per_minute", 10, 1, retry_ms), ITEM)
    assert error.headers.get("x-should-retry") == told
    assert int(error.headers["retry-after"]) >= 1


def test_a_refusals_headers_tell_of_the_tightest_limits() -> None:
    headers = over_limit(refused(Level.TENANT, "requests_per_minute", 60, 0, 950), ITEM).headers
    assert headers["x-ratelimit-limit-requests"] == "60"
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["x-ratelimit-reset-requests"] == "60s"
    assert headers["x-ratelimit-limit-tokens"] == "1000000000"
    assert headers["x-ratelimit-remaining-tokens"] == "123456789"
    assert headers["x-ratelimit-reset-tokens"] == "1728000.001s"


@pytest.mark.parametrize(
    ("tokens", "cost", "warned"), [(999, 5 * NANO - 1, False), (1000, 0, True), (0, 5 * NANO, True)]
)
def test_an_answer_warns_once_a_budgets_mark_is_reached(tokens: int, cost: int, warned: bool) -> None:
    headers = dict(answer_headers(ITEM, Admitted(True, True, Tightest(), None, tokens, cost)))
    assert headers == ({b"x-sluice-budget": b"warning"} if warned else {})


@pytest.mark.parametrize(
    ("latest", "oldest", "wait", "retry_ms"),
    [((), 0, None, 1_000), ((100, 40_000, 200), 0, "0.2 s", 1_000), ((4_000,), 90_000, "90 s", 9_000)],
)
def test_a_full_queue_tells_how_long_it_takes(
    latest: tuple[int, ...], oldest: int, wait: str | None, retry_ms: int
) -> None:
    error = closed(Closed("queue_full", 1000, 1000, oldest, latest, TIGHTEST), ITEM)
    assert (error.status, error.code) == (429, "queue_full")
    assert (wait is None) == ("has waited" not in error.message)
    assert wait is None or f"has waited about {wait}." in error.message
    assert error.headers["retry-after-ms"] == str(retry_ms)


def test_a_draining_queue_is_no_limit_of_the_clients() -> None:
    error = closed(Closed("draining", 1000, 3, 0, (9_000,), TIGHTEST), ITEM)
    assert (error.status, error.headers["retry-after"]) == (503, "9")
