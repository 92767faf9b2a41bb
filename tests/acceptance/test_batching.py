"""An engine is given what it has room for and no more, in fair order, and no worker becomes a hot spot."""

import asyncio
from collections import Counter
from typing import Any
from uuid import uuid4

import httpx
import pytest

from domain.fair_order import CACHED_PROMPT_COST, OUTPUT_COST
from tests.acceptance import load
from tests.acceptance.load import SOON_S, body_of, held, holding, post_all, rooms, rows, switched, until, waiting
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

SEATS = 8
ONE_WORKER = {"worker:worker-2": "paused", "worker:worker-3": "paused", "worker:p0-worker-1": "paused"}
TWO_WORKERS = {"worker:worker-3": "paused"}


@pytest.fixture(scope="module")
def keys(trio: Stack) -> dict[str, str]:
    plans: dict[str, dict[str, Any]] = {"urgent": {"best_class": "p0"}, "long-prompts": {}, "short-prompts": {}}
    return trio.add_tenants(plans)


@pytest.fixture(autouse=True)
def _at_rest(trio: Stack) -> None:
    load.at_rest(trio)


async def first_token(client: httpx.AsyncClient, body: dict[str, Any]) -> None:
    async with client.stream("POST", "/chat/completions", json=body | {"stream": True}) as response:
        assert response.status_code == 200
        async for part in response.aiter_raw():
            if b"content" in part:
                return


async def test_an_urgent_request_finds_a_sequence_free_among_background_work(trio: Stack, keys: dict[str, str]) -> None:
    with switched(trio, ONE_WORKER):
        one = load.worker_id(trio, "worker-1")
        backlog = asyncio.create_task(post_all(trio, [body_of("tokens=500,itl=0.02", "p2")] * 64))
        await until(lambda: rooms(trio, "p2")[one] == 0 and waiting(trio, "p2") + len(held(trio, one)) == 64)
        before = held(trio, one)
        assert set(before) == {"p2"}
        assert len(before) <= SEATS - 1
        async with load.client_of(trio, keys["urgent"]) as client:
            await first_token(client, body_of("tokens=2", "p0"))
        assert waiting(trio, "p2") > 0
        assert held(trio, one).count("p2") == len(before)
        await until(lambda: load.workers(trio)[one]["reserve_p0"] == "2")  # of a peak of one, that one and one more
        assert rooms(trio, "p0")[one] >= 1
        backlog.cancel()
        await asyncio.gather(backlog, return_exceptions=True)


async def test_the_reserve_for_p0_is_not_given_to_the_background_work_that_waits(
    trio: Stack, keys: dict[str, str]
) -> None:
    with switched(trio, ONE_WORKER):
        one = load.worker_id(trio, "worker-1")
        async with load.client_of(trio, keys["urgent"]) as client:
            await first_token(client, body_of("tokens=2", "p0"))
        # An earlier test leaves the same reserve and room, and a worker tells only now and then what it runs.
        await until(lambda: not held(trio, one) and load.workers(trio)[one]["running"] == "0")
        await until(lambda: load.workers(trio)[one]["reserve_p0"] == "2" and rooms(trio, "p0")[one] == SEATS)
        work = asyncio.create_task(post_all(trio, [body_of("tokens=8,itl=0.05", "p2")] * 32))
        most = 0
        while not work.done():
            # As the worker counts them: what has just ended is held in the store until its ending has arrived.
            most = max(most, int(load.workers(trio)[one]["running"]))
            await asyncio.sleep(0.05)
        assert {answer.status_code for answer in work.result()} == {200}
        assert 1 <= most <= SEATS - 2


async def test_long_prompts_and_short_ones_get_equal_shares_of_the_engines(trio: Stack, keys: dict[str, str]) -> None:
    long = [body_of("tokens=4", text=f"{uuid4()}" + "four" * 7800, max_tokens=4) for _ in range(10)]
    short = [body_of("tokens=4", text=f"{uuid4()}" + "four" * 90, max_tokens=4) for _ in range(250)]
    with switched(trio, {"queue:p1": "paused"}):
        one = asyncio.create_task(post_all(trio, long, keys["long-prompts"]))
        two = asyncio.create_task(post_all(trio, short, keys["short-prompts"]))
        await until(lambda: waiting(trio, "p1") == 260)
    longs, shorts = rows(trio, await one), rows(trio, await two)
    assert {answer["outcome"] for answer in longs + shorts} == {"completed"}
    # While both had something waiting: until the last one of either was claimed.
    end = min(max(answer["claimed_at"] for answer in longs), max(answer["claimed_at"] for answer in shorts))
    served = [sum(cost(answer) for answer in some if answer["claimed_at"] < end) for some in (longs, shorts)]
    fairness = sum(served) ** 2 / (2 * sum(tokens**2 for tokens in served))
    assert fairness >= 0.9, served


def cost(row: dict[str, Any]) -> float:
    cached = row["cached_tokens"]
    return float(row["prompt_tokens"] - cached + CACHED_PROMPT_COST * cached + OUTPUT_COST * row["completion_tokens"])


HOT = "Once upon a time there was a lock keeper. " * 60


async def warm(stack: Stack, name: str) -> None:
    """Let one worker alone of the three serve prompts that share a long prefix."""
    others = {f"worker:worker-{number}": "paused" for number in (1, 2, 3)}
    del others[f"worker:{name}"]
    with switched(stack, others):
        answers = await post_all(stack, [body_of("tokens=2", text=f"{HOT}{number}") for number in range(8)])
    assert {answer.status_code for answer in answers} == {200}


async def test_prompts_that_nobody_knows_go_to_the_idle_worker_whatever_it_has_cached(trio: Stack) -> None:
    await warm(trio, "worker-2")
    busy, idle = load.worker_id(trio, "worker-1"), load.worker_id(trio, "worker-2")
    with switched(trio, TWO_WORKERS):
        with switched(trio, {"worker:worker-2": "paused"}):
            slow = [body_of("tokens=4000,itl=0.02", text=f"{number} is unique") for number in range(SEATS)]
            work = asyncio.create_task(post_all(trio, slow))
            await until(lambda: held(trio, busy) and rooms(trio, "p1")[busy] == 0)
        await until(lambda: rooms(trio, "p1")[idle])
        answers = await post_all(trio, [body_of("tokens=2", text=f"{number} is another") for number in range(12)])
        assert {row["worker_id"] for row in rows(trio, answers)} == {idle}
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_one_hot_prefix_does_not_make_a_hot_worker(trio: Stack) -> None:
    await warm(trio, "worker-2")
    with switched(trio, TWO_WORKERS):
        hot = [body_of("tokens=10,itl=0.02", text=f"{HOT}{number}") for number in range(3 * 2 * SEATS)]
        served = Counter(row["worker_id"] for row in rows(trio, await post_all(trio, hot)))
    assert len(served) == 2
    assert max(served.values()) <= 2 * min(served.values()), served


async def test_a_large_batch_of_background_work_goes_out_in_slices(trio: Stack) -> None:
    before = len(load.logged(trio, "slices_settled"))
    listeners = len(trio.store(db=2).pubsub_channels("celery-task-meta-*"))
    work = [body_of("tokens=8,itl=0.02", "p2")] * 40

    async def slices() -> int:
        with switched(trio, {"queue:p2": "paused"}):
            asked = asyncio.create_task(post_all(trio, work))
            await until(lambda: waiting(trio, "p2") == 40)
            trio.store().delete(f"sl:rung:{load.MODEL}:p2")
        last = await post_all(trio, work[:1])  # rings
        assert {answer.status_code for answer in [*last, *await asked]} == {200}
        return len(load.logged(trio, "slices_settled")) - before

    # A worker's own look at the queue may come before the ticket.
    for _ in range(5):
        if await slices():
            break
    settled = load.logged(trio, "slices_settled")
    assert len(settled) > before, "no chord's body ran"
    assert all(one["slices"] == len(one["batch_ids"]) >= 2 for one in settled)
    assert len(trio.store(db=2).pubsub_channels("celery-task-meta-*")) == listeners


async def test_a_window_tells_what_closed_it(trio: Stack) -> None:
    def closed_by(qos_class: str) -> str | None:
        found = trio.store().hget(f"sl:windows:{load.MODEL}:{qos_class}", "last_closed_by")
        return found.decode() if found else None

    await post_all(trio, [body_of("tokens=2")])
    wait_until(lambda: closed_by("p1") == "room", SOON_S)
    with holding(trio, 3 * SEATS):
        await until(lambda: not any(rooms(trio, "p1").values()) and not any(rooms(trio, "p2").values()))
        late = asyncio.create_task(post_all(trio, [body_of("tokens=2")]))
        await until(lambda: closed_by("p1") == "time")
        many = asyncio.create_task(post_all(trio, [body_of("tokens=2", "p2")] * 6))
        await until(lambda: closed_by("p2") == "size")
        window = trio.store().hgetall(f"sl:windows:{load.MODEL}:p2")
    assert {answer.status_code for answer in [*await late, *await many]} == {200}
    assert int(window[b"capacity"]) == 6
    assert int(window[b"items"]) == 6
