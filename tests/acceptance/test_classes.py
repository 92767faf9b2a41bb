"""Each class waits within its bounds, and a refusal says which bound it was and when to come back."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import psutil
import pytest

from tests.acceptance import load, sse
from tests.acceptance.load import SOON_S, body_of, holding, post, post_all, rooms, rows, switched, until, waiting
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

SEATS = 8
ALL_WORKERS = ("worker-1", "worker-2", "worker-3", "p0-worker-1")
AGEING_MS = 1_000


@pytest.fixture(scope="module")
def keys(trio: Stack) -> dict[str, str]:
    plans: dict[str, dict[str, Any]] = {"real-time": {"best_class": "p0"}, "two": {"requests_per_minute": 2}}
    return trio.add_tenants(plans)


@pytest.fixture(autouse=True)
def _at_rest(trio: Stack) -> None:
    load.at_rest(trio)


@contextmanager
def only(stack: Stack, name: str) -> Iterator[str]:
    """One worker works alone; yields its id."""
    with switched(stack, {f"worker:{other}": "paused" for other in ALL_WORKERS if other != name}):
        yield load.worker_id(stack, name)


@contextmanager
def full(stack: Stack, qos_class: str = "p1", key: str = "") -> Iterator[str]:
    """One worker is in service and runs all it can of a class; some may wait, if it keeps room for more urgent ones."""
    with only(stack, "worker-1") as one, holding(stack, SEATS, qos_class, key):
        wait_until(lambda: rooms(stack, qos_class)[one] == 0, SOON_S)
        yield one


def check_refusal(answer: httpx.Response, status: int, code: str, reason: str = "") -> None:
    error = sse.error_of(answer)
    assert (answer.status_code, error["code"]) == (status, code)
    assert error["reason"] == (reason or code)
    assert int(answer.headers["retry-after"]) >= 1


def check_never_ran(stack: Stack, answer: httpx.Response) -> None:
    found = load.row(stack, answer)
    assert (found["outcome"], found["status"]) == ("expired", 429)
    assert (found["claimed_at"], found["worker_id"], found["completion_tokens"]) == (None, "", 0)


# --- refusals --------------------------------------------------------------------------------------------------------


async def test_what_the_engine_says_about_coming_back_is_passed_on(trio: Stack, keys: dict[str, str]) -> None:
    refused = await post(trio, body_of("error=429,retry_after=7"), keys["two"])
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "7"
    assert refused.headers["x-ratelimit-remaining-requests"] == "1"
    answer = await post(trio, body_of("tokens=2"), keys["two"])
    assert (answer.status_code, answer.headers["x-ratelimit-remaining-requests"]) == (200, "0")
    own = await post(trio, body_of("tokens=2"), keys["two"])
    check_refusal(own, 429, "rate_limit_exceeded", "requests_per_minute")
    assert own.headers["x-ratelimit-remaining-requests"] == "0"
    assert int(own.headers["retry-after"]) <= 30


async def test_a_full_queue_refuses_at_once(trio: Stack, keys: dict[str, str]) -> None:
    with switched(trio, {"queue:p0": "paused"}):
        waits = asyncio.create_task(post_all(trio, [body_of("tokens=2", "p0")] * 3, keys["real-time"]))
        await until(lambda: waiting(trio, "p0") == 3)
        check_refusal(await post(trio, body_of("tokens=2", "p0"), keys["real-time"]), 429, "queue_full")
        assert (await post(trio, body_of("tokens=2"), keys["real-time"])).status_code == 200  # another class
    assert {answer.status_code for answer in await waits} == {200}


async def test_the_memory_of_waiting_background_work_is_bounded(trio: Stack) -> None:
    large = body_of("tokens=2", "p2", text="x" * 30_000)
    with switched(trio, {"queue:p2": "paused"}):
        waits = asyncio.create_task(post_all(trio, [large] * 34))
        await until(lambda: waiting(trio, "p2") == 34)
        assert 0 < int(trio.store().get(f"sl:bytes:{load.MODEL}:p2")) <= 2**20
        refused = await post(trio, large)
        check_refusal(refused, 429, "queue_full")
        assert "1 MiB" in refused.json()["error"]["message"]
    assert {answer.status_code for answer in await waits} == {200}
    assert (await post(trio, large)).status_code == 200


async def test_who_waits_longer_than_its_class_allows_is_refused_and_never_run(trio: Stack) -> None:
    with full(trio, "p2"):
        late = await post_all(trio, [body_of("tokens=2", "p2", stream=stream) for stream in (False, True)])
    for answer in late:
        check_refusal(answer, 429, "queue_deadline", "ttl")
        check_never_ran(trio, answer)


async def test_who_waits_longer_than_its_client_does_is_refused_and_never_run(trio: Stack) -> None:
    timeouts = [(seconds, stream) for seconds in (0.3, 0.7, 1.0) for stream in (False, True)]
    with full(trio):
        bodies = [body_of("tokens=2", timeout=seconds, stream=stream) for seconds, stream in timeouts]
        late = await post_all(trio, bodies)
    for answer in late:
        check_refusal(answer, 429, "queue_deadline", "ttl")
        check_never_ran(trio, answer)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_what_runs_longer_than_its_client_waits_is_stopped(trio: Stack, stream: bool) -> None:
    answer = await post(trio, body_of("tokens=4000,itl=0.05", timeout=0.7, stream=stream))
    if stream:
        error = sse.failed(answer.content).error
        assert error
        assert error["code"] == "timeout"
    else:
        assert (answer.status_code, sse.error_of(answer)["code"]) == (504, "timeout")
    found = load.row(trio, answer)
    assert (found["outcome"], found["status"]) == ("timeout", 504)
    assert found["claimed_at"]
    wait_until(lambda: load.workers(trio)[found["worker_id"]]["running"] == "0", SOON_S, "the engine goes on")


# --- operators' switches -------------------------------------------------------------------------------------------


async def test_a_paused_queue_waits_and_goes_on_afterwards(trio: Stack) -> None:
    with switched(trio, {"queue:p1": "paused"}):
        waits = asyncio.create_task(post_all(trio, [body_of("tokens=2")] * 5))
        await until(lambda: waiting(trio, "p1") == 5)
        assert (await post(trio, body_of("tokens=2", "p2"))).status_code == 200  # though it is less urgent
        assert waiting(trio, "p1") == 5
    assert {answer.status_code for answer in await waits} == {200}


async def test_a_draining_queue_takes_nothing_new_and_runs_out(trio: Stack) -> None:
    with full(trio):
        before = waiting(trio, "p1")
        waits = asyncio.create_task(post_all(trio, [body_of("tokens=2")] * 3))
        await until(lambda: waiting(trio, "p1") == before + 3)
        with switched(trio, {"queue:p1": "draining"}):
            check_refusal(await post(trio, body_of("tokens=2")), 503, "queue_draining")
            trio.store().hdel("sl:switch", f"worker:{load.worker_id(trio, 'worker-2')}")  # there is room again
            assert {answer.status_code for answer in await waits} == {200}
    assert (await post(trio, body_of("tokens=2"))).status_code == 200


async def test_a_paused_worker_ends_what_it_runs_and_leaves_the_rest_to_others(trio: Stack) -> None:
    with only(trio, "worker-1") as one:
        runs = asyncio.create_task(post_all(trio, [body_of("tokens=30,itl=0.03")] * 4))
        await until(lambda: len(load.held(trio, one)) == 4)
    with switched(trio, {"worker:worker-1": "paused"}):
        others = rows(trio, await post_all(trio, [body_of("tokens=2")] * 20))
        assert one not in {found["worker_id"] for found in others}
        assert {found["worker_id"] for found in rows(trio, await runs)} == {one}
        assert load.workers(trio)[one]["state"] == "ready"


# --- order between classes ---------------------------------------------------------------------------------------


async def test_background_work_gets_its_turn_though_more_urgent_work_never_ends(trio: Stack) -> None:
    ended = asyncio.Event()

    async def again_and_again(client: httpx.AsyncClient) -> list[httpx.Response]:
        answers = []
        while not ended.is_set():
            answers.append(await client.post("/chat/completions", json=body_of("tokens=4,itl=0.1")))
        return answers

    with only(trio, "worker-1"):
        async with load.client_of(trio) as client:
            urgent = [asyncio.create_task(again_and_again(client)) for _ in range(3 * SEATS)]
            await until(lambda: waiting(trio, "p1") >= SEATS)
            answer = await post(trio, body_of("tokens=2", "p2"))
            ended.set()
            others = [one for task in urgent for one in await task]
    assert answer.status_code == 200
    late = load.row(trio, answer)
    claims = sorted(_time(found["claimed_at"]) for found in rows(trio, others))
    aged_at = _time(late["admitted_at"]) + timedelta(milliseconds=AGEING_MS)
    served_at = _time(late["claimed_at"])
    assert served_at >= aged_at
    assert sum(_time(late["admitted_at"]) < at < aged_at for at in claims) > SEATS  # until then they all went first
    assert sum(aged_at < at < served_at for at in claims) <= 8


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


async def test_a_worker_for_p0_runs_nothing_else(trio: Stack, keys: dict[str, str]) -> None:
    dedicated = load.worker_id(trio, "p0-worker-1")
    others = {f"worker:worker-{number}": "paused" for number in (1, 2, 3)}
    with switched(trio, others):
        less_urgent = [body_of("tokens=2", "p1"), body_of("tokens=2", "p2")] * 3
        waits = asyncio.create_task(post_all(trio, less_urgent, keys["real-time"]))
        await until(lambda: waiting(trio, "p1") + waiting(trio, "p2") == 6)
        urgent = await post_all(trio, [body_of("tokens=2", "p0")] * 3, keys["real-time"])
        assert {found["worker_id"] for found in rows(trio, urgent)} == {dedicated}
        assert waiting(trio, "p1") + waiting(trio, "p2") == 6
    assert dedicated not in {found["worker_id"] for found in rows(trio, await waits)}


def test_a_worker_for_p0_keeps_to_its_core(trio: Stack) -> None:
    states = load.workers(trio)
    dedicated = states[load.worker_id(trio, "p0-worker-1")]
    core = min(os.sched_getaffinity(0))
    assert psutil.Process(int(dedicated["pid"])).cpu_affinity() == [core]
    assert (dedicated["cores"], dedicated["classes"]) == (str(core), "p0")
    other = states[load.worker_id(trio, "worker-1")]
    assert psutil.Process(int(other["pid"])).cpu_affinity() == sorted(os.sched_getaffinity(0))
