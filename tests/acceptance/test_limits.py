"""Limits hold over all gateways together, a refusal says what to do, and nobody pays for his neighbour."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from openai import RateLimitError

from tests.acceptance import sse
from tests.acceptance.caller import Caller
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"
SEATS = 32
SOON_S = 10.0


@pytest.fixture(scope="module")
def keys(pair: Stack) -> dict[str, str]:
    """One tenant for each kind of plan."""
    return pair.add_tenants(
        {
            "five-a-minute": {"requests_per_minute": 5},
            "five-a-day": {"requests_per_day": 5, "tokens_per_month": 1_000_000},
            "five-a-day-by-key": {"key": {"requests_per_day": 5}},
            "one-at-once-by-key": {"key": {"max_concurrent": 1}},
            "small-budget": {"tokens_per_month": 60, "tokens_per_month_soft": 1},
            "three-at-once": {"max_concurrent": 3},
            "few-tokens": {"tokens_per_minute": 6000},
            "brief": {"tokens_per_minute": 50},
            "clumsy": {},
            "large": {},
            "small": {},
            "patient": {"best_class": "p2"},
            "urgent": {"best_class": "p0"},
        }
    )


def body_of(sim: str = "", text: str = "hello", **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": text}]}
    return body | ({"metadata": {"sim": sim}} if sim else {}) | fields


async def post_all(stack: Stack, key: str, bodies: Sequence[dict[str, Any]]) -> list[httpx.Response]:
    """Send all at once, each on a connection of its own."""
    headers = {"authorization": f"Bearer {key}"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=stack.base_url, headers=headers, timeout=60, limits=limits) as client:
        return await asyncio.gather(*(client.post("/chat/completions", json=body) for body in bodies))


def post(stack: Stack, key: str, **options: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", **options.pop("headers", {})}
    return httpx.post(f"{stack.base_url}/chat/completions", headers=headers, timeout=60, **options)


def rows_of(stack: Stack, tenant: str, columns: str) -> list[Any]:
    """Usage rows of one tenant, in the order in which they were claimed."""
    query = f"(SELECT slug FROM tenants_tenant WHERE id = tenant_id), claimed_at, {columns}"
    return [row[2:] for row in sorted(stack.usage_rows(query), key=lambda row: row[1] or "") if row[0] == tenant]


def check_refusal(response: httpx.Response, reason: str) -> dict[str, Any]:
    error = sse.error_of(response)
    assert response.status_code == 429
    assert error["reason"] == reason
    assert error["type"] == "rate_limit_error"
    assert int(response.headers["retry-after"]) >= 1
    return error


async def test_requests_per_minute_are_exact_over_all_gateways(pair: Stack, keys: dict[str, str]) -> None:
    answers = await post_all(pair, keys["five-a-minute"], [body_of()] * 50)
    assert Counter(answer.status_code for answer in answers) == {200: 5, 429: 45}
    for answer in answers:
        assert answer.headers["x-ratelimit-limit-requests"] == "5"
        if answer.status_code == 429:
            check_refusal(answer, "requests_per_minute")
            assert answer.headers["x-ratelimit-remaining-requests"] == "0"
            assert 0 < float(answer.headers["x-ratelimit-reset-requests"].removesuffix("s")) <= 60
            assert int(answer.headers["retry-after"]) <= 12
    left = {int(answer.headers["x-ratelimit-remaining-requests"]) for answer in answers if answer.status_code == 200}
    assert left == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("tenant", ["five-a-day", "five-a-day-by-key"])
async def test_of_fifty_parallel_requests_for_a_day_of_five_exactly_five_get_an_answer(
    pair: Stack, keys: dict[str, str], tenant: str
) -> None:
    async with pair.async_client(api_key=keys[tenant]) as client:

        async def ask() -> RateLimitError | None:
            messages: list[Any] = [{"role": "user", "content": "hello"}]
            try:
                await client.chat.completions.create(model=MODEL, messages=messages, max_tokens=5)
            except RateLimitError as refused:
                return refused
            return None

        refusals = [one for one in await asyncio.gather(*(ask() for _ in range(50))) if one is not None]
        assert len(refusals) == 45
        for refused in (*refusals, await ask()):  # the five have ended, and the day has not
            assert refused is not None
            assert refused.code == "rate_limit_exceeded"
            assert ("This API key's" if tenant.endswith("key") else "Your plan's") in refused.message
            assert refused.response.headers["x-should-retry"] == "false"
            assert refused.response.headers["x-ratelimit-remaining-requests"] == "0"


async def test_a_budget_warns_at_its_mark_and_refuses_at_its_end(pair: Stack, keys: dict[str, str]) -> None:
    first = post(pair, keys["small-budget"], json=body_of("tokens=5", max_tokens=5))
    assert (first.status_code, first.headers.get("x-sluice-budget")) == (200, None)
    answers = [post(pair, keys["small-budget"], json=body_of("tokens=5", max_tokens=5)) for _ in range(12)]
    assert answers[0].headers["x-sluice-budget"] == "warning"
    end = answers[-1]
    assert (end.status_code, end.headers["x-should-retry"]) == (429, "false")
    error = sse.error_of(end)
    assert (error["type"], error["code"], error["reason"]) == (
        "insufficient_quota",
        "insufficient_quota",
        "tokens_per_month",
    )
    wait_until(lambda: pair.leftovers() == {} and pair.store().xlen("sl:settle") == 0, SOON_S)
    rows = rows_of(pair, "small-budget", "prompt_tokens + completion_tokens")
    assert len(rows) == 1 + sum(one.status_code == 200 for one in answers)
    assert 40 < sum(tokens for (tokens,) in rows) <= 60


def test_a_keys_only_slot_is_back_whenever_its_stream_is_cut(pair: Stack, keys: dict[str, str]) -> None:
    key = keys["one-at-once-by-key"]
    for _ in range(10):
        caller = Caller(pair, body_of("tokens=4000,itl=0.005", stream=True), key)
        caller.read_until(b"chat.completion.chunk")
        check_refusal(post(pair, key, json=body_of("tokens=2")), "concurrency")
        caller.leave()
        wait_until(lambda: not list(pair.store().scan_iter("sl:slots:*")), SOON_S)
        assert post(pair, key, json=body_of("tokens=2")).status_code == 200
    wait_until(lambda: pair.leftovers() == {}, SOON_S)


async def test_requests_at_once_are_exact_over_all_gateways(pair: Stack, keys: dict[str, str]) -> None:
    answers = await post_all(pair, keys["three-at-once"], [body_of("delay=1,tokens=2")] * 20)
    assert Counter(answer.status_code for answer in answers) == {200: 3, 429: 17}
    for answer in answers:
        if answer.status_code == 429:
            check_refusal(answer, "concurrency")
    assert post(pair, keys["three-at-once"], json=body_of("tokens=2")).status_code == 200


def test_tokens_that_were_reserved_and_not_used_come_back(pair: Stack, keys: dict[str, str]) -> None:
    key, reserved = keys["few-tokens"], 3000
    for script in ("tokens=5", "die_after=0", "error=400", "tokens=5"):
        answer = post(pair, key, json=body_of(script, max_tokens=reserved))
        assert answer.status_code in (200, 400, 502)
        left = int(answer.headers["x-ratelimit-remaining-tokens"])
        assert 6000 - reserved - 200 <= left <= 6000 - reserved
        wait_until(lambda: pair.leftovers() == {}, SOON_S)


def test_a_request_that_can_never_pass_is_told_not_to_come_back(pair: Stack, keys: dict[str, str]) -> None:
    answer = post(pair, keys["few-tokens"], json=body_of(max_tokens=7000))
    assert "max_tokens" in check_refusal(answer, "tokens_per_minute")["message"]
    assert answer.headers["x-should-retry"] == "false"


def test_an_answer_that_names_no_length_ends_where_the_plan_does(pair: Stack, keys: dict[str, str]) -> None:
    answer = post(pair, keys["brief"], json=body_of("tokens=4000"))
    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert (found["choices"][0]["finish_reason"], found["usage"]["total_tokens"]) == ("length", 50)
    check_refusal(post(pair, keys["brief"], json=body_of("tokens=2", max_tokens=20)), "tokens_per_minute")


def test_tokens_that_are_reserved_are_not_given_out_twice(pair: Stack, keys: dict[str, str]) -> None:
    caller = Caller(pair, body_of("hang_after=1", max_tokens=5000, stream=True), keys["few-tokens"])
    caller.read_until(b"\r\n\r\n")
    refused = post(pair, keys["few-tokens"], json=body_of(max_tokens=3000))
    check_refusal(refused, "tokens_per_minute")
    assert int(refused.headers["x-ratelimit-remaining-tokens"]) < 3000
    caller.leave()
    wait_until(lambda: pair.leftovers() == {}, SOON_S)
    assert post(pair, keys["few-tokens"], json=body_of("tokens=5", max_tokens=3000)).status_code == 200


async def test_bodies_that_the_engine_refuses_harm_no_neighbour(pair: Stack, keys: dict[str, str]) -> None:
    wrong, right = await asyncio.gather(
        post_all(pair, keys["clumsy"], [body_of(text="word " * 12_000)] * 50),
        post_all(pair, keys["small"], [body_of("tokens=3")] * 20),
    )
    assert {answer.status_code for answer in wrong} == {400}
    assert {sse.error_of(answer)["code"] for answer in wrong} == {"context_length_exceeded"}
    assert {answer.status_code for answer in right} == {200}
    assert httpx.get(f"{pair.root_url}/readyz", timeout=20).status_code == 200


@contextmanager
def all_seats_taken(stack: Stack) -> Iterator[None]:
    """Hold every seat of both engines, so that what comes meanwhile waits."""
    holders = [Caller(stack, body_of("hang_after=1", stream=True)) for _ in range(SEATS)]
    wait_until(lambda: room(stack) == 0, SOON_S)
    yield
    for holder in holders:
        holder.leave()


def room(stack: Stack) -> int:
    return sum(int(free) for free in stack.store().hvals(f"sl:room:{MODEL}:p0"))


def waiting(stack: Stack, qos_class: str) -> int:
    return int(stack.store().zcard(f"sl:ready:{MODEL}:{qos_class}"))


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(SOON_S * 3):
        while not what():
            await asyncio.sleep(0.02)


async def test_backlogged_tenants_share_the_engines_by_tokens(pair: Stack, keys: dict[str, str]) -> None:
    large = body_of("tokens=4", text="four" * 2000, max_tokens=4)
    small = body_of("tokens=4", text="four" * 200, max_tokens=4)
    with all_seats_taken(pair):
        first = asyncio.create_task(post_all(pair, keys["large"], [large] * 30))
        await until(lambda: waiting(pair, "p1") == 30)
        second = asyncio.create_task(post_all(pair, keys["small"], [small] * 90))
        await until(lambda: waiting(pair, "p1") == 120)
    answers = [*await first, *await second]
    assert {answer.status_code for answer in answers} == {200}
    wait_until(lambda: pair.leftovers() == {} and pair.store().xlen("sl:settle") == 0, SOON_S)
    smalls = rows_of(pair, "small", "claimed_at, prompt_tokens")[-90:]
    larges = rows_of(pair, "large", "claimed_at, prompt_tokens")[-30:]
    # While both had work waiting: until the last small one was claimed.
    served = sum(tokens for at, tokens in larges if at < smalls[-1][0]), sum(tokens for _, tokens in smalls)
    fairness = sum(served) ** 2 / (2 * sum(tokens**2 for tokens in served))
    assert fairness >= 0.9, served


async def test_an_urgent_request_overtakes_a_backlog_of_background_work(pair: Stack, keys: dict[str, str]) -> None:
    work = body_of("tokens=24,itl=0.05", service_tier="flex")
    backlog = asyncio.create_task(post_all(pair, keys["patient"], [work] * 64))
    # Of each engine an eighth stays free for what is more urgent.
    await until(lambda: (waiting(pair, "p2"), room(pair)) == (36, 4))
    headers = {"authorization": f"Bearer {keys['urgent']}"}
    async with httpx.AsyncClient(base_url=pair.base_url, headers=headers, timeout=60) as client:
        answer = await client.post("/chat/completions", json=body_of("tokens=2", service_tier="priority"))
    assert answer.status_code == 200
    assert waiting(pair, "p2") > 0
    assert {one.status_code for one in await backlog} == {200}


def test_no_header_and_no_tier_lifts_a_request_above_its_key(pair: Stack, keys: dict[str, str]) -> None:
    spoofed = {
        "x-priority": "p0",
        "x-vllm-priority": "-100",
        "x-tenant": "urgent",
        "x-tenant-id": "1",
        "x-model-version": "canary",
        "x-upstream": "http://127.0.0.1:1",
        "x-forwarded-for": "127.0.0.1",
    }
    answer = post(pair, keys["patient"], json=body_of("tokens=2", service_tier="priority"), headers=spoofed)
    assert answer.status_code == 200
    request_id = answer.headers["x-request-id"]
    rows = wait_until(lambda: _rows_with_id(pair, "patient", request_id), SOON_S)
    assert rows[0][1] == "p2"
    assert rows[0][2].startswith("sim-")


def _rows_with_id(stack: Stack, tenant: str, request_id: str) -> list[Any]:
    return [row for row in rows_of(stack, tenant, "request_id, qos_class, model_version") if row[0] == request_id]


@pytest.mark.parametrize("sent", ["x" * 10_240, "sürprise".encode(), b"a\tb", "0" * 36, "sl:item:1", ""])
def test_a_request_id_of_the_clients_own_is_never_taken_raw(pair: Stack, keys: dict[str, str], sent: Any) -> None:
    answers = [post(pair, keys["small"], json=body_of("tokens=2"), headers={"x-request-id": sent}) for _ in range(2)]
    assert {answer.status_code for answer in answers} <= {200, 400}
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert len(set(ids)) == 2
    assert all(str(uuid.UUID(one)) == one for one in ids)


def test_waiting_is_bounded_in_time_and_number_and_a_missing_engine_is_told(sim: Stack) -> None:
    # A worker serves before Celery has named its process.
    worker = wait_until(lambda: sim.children("celeryd: worker-1"), 20)[0]
    worker.suspend()
    try:
        late = Caller(sim, body_of("tokens=2", service_tier="priority"))
        wait_until(lambda: httpx.get(f"{sim.root_url}/readyz", timeout=20).status_code == 503, 20)
        assert httpx.get(f"{sim.root_url}/livez", timeout=20).status_code == 200
        sim.store().zadd(f"sl:ready:{MODEL}:p0", {f"nobody-{number}": 0 for number in range(1000)})
        check_refusal(post(sim, sim.api_key, json=body_of(service_tier="priority")), "queue_full")
        sim.store().zremrangebyscore(f"sl:ready:{MODEL}:p0", 0, 0)
        assert b"queue_deadline" in late.read_until(b"}}")
        late.leave()
        gone = wait_until(lambda: _unless_waiting(sim), 40)
        assert gone.status_code == 503
        assert sse.error_of(gone)["code"] == "no_backend"
        assert int(gone.headers["retry-after"]) >= 1
    finally:
        worker.resume()
    wait_until(lambda: httpx.get(f"{sim.root_url}/readyz", timeout=20).status_code == 200, 20)
    assert post(sim, sim.api_key, json=body_of("tokens=2")).status_code == 200
    wait_until(lambda: sim.leftovers() == {}, SOON_S)


def _unless_waiting(stack: Stack) -> httpx.Response | None:
    try:
        return httpx.post(
            f"{stack.base_url}/chat/completions",
            json=body_of("tokens=2"),
            headers={"authorization": f"Bearer {stack.api_key}"},
            timeout=0.5,
        )
    except httpx.ReadTimeout:
        return None
