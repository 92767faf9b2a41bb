"""Batches take what is left: their own tenant's users, other tenants and more urgent work go on beside them."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.acceptance import batches
from tests.acceptance.batches import answered, chats
from tests.acceptance.load import body_of, client_of, post_all
from tests.stack import Stack

pytestmark = pytest.mark.stack

SLOW = "tokens=20,itl=0.05"


@pytest.fixture(scope="module")
def keys(bulk: Stack) -> Iterator[dict[str, str]]:
    """One tenant for each kind of plan; all their batches are over in the end."""
    made = bulk.add_tenants(
        {
            "20-a-minute": {"requests_per_minute": 20},
            "240-a-minute": {"requests_per_minute": 240},
            "steady": {"requests_per_minute": 240},
            "2-at-once": {"max_concurrent": 2},
            "8-at-once": {"max_concurrent": 8},
            "used-up": {"requests_per_day": 1},
            "whale": {},
            "minnow": {},
            "users": {"best_class": "p0"},
        }
    )
    yield made
    for key in made.values():
        with bulk.client(api_key=key) as client:
            for one in client.batches.list(limit=100).data:
                batches.finish(client, one.id)


async def one_by_one(stack: Stack, key: str, count: int) -> Counter[int]:
    """Ask one question after the other, as a user does; return how often each status came."""
    async with client_of(stack, key) as client:
        answers: list[httpx.Response] = [
            await client.post("/chat/completions", json=body_of("tokens=2", text=f"{number}"))
            for number in range(count)
        ]
    return Counter(answer.status_code for answer in answers)


@pytest.mark.parametrize(("tenant", "first", "users"), [("20-a-minute", 5, 6), ("240-a-minute", 80, 80)])
async def test_a_batch_leaves_its_tenants_users_half_of_a_minutes_requests(
    bulk: Stack, keys: dict[str, str], tenant: str, first: int, users: int
) -> None:
    lines = chats(500)
    with bulk.client(api_key=keys[tenant]) as client:
        made = batches.submit(client, lines)
        batches.reach(client, made.id, answered(first))
        assert await one_by_one(bulk, keys[tenant], users) == {200: users}
        stands: Any = client.batches.cancel(made.id)
        assert stands.request_counts.completed < len(lines)
        ended = batches.finish(client, made.id)
        _, errors = batches.check_each_once(client, ended, lines)
        assert {one["error"]["code"] for one in errors} == {"batch_cancelled"}, "none was refused for good"


def test_a_batch_that_waits_for_a_minutes_requests_completes(bulk: Stack, keys: dict[str, str]) -> None:
    lines = chats(150)
    with bulk.client(api_key=keys["steady"]) as client:
        ended = batches.run(client, lines)
        assert (ended.status, ended.request_counts.failed) == ("completed", 0)
        batches.check_each_once(client, ended, lines)


@pytest.mark.parametrize("tenant", ["2-at-once", "8-at-once"])
async def test_a_batch_leaves_its_tenants_users_half_of_the_requests_at_once(
    bulk: Stack, keys: dict[str, str], tenant: str
) -> None:
    """However many processes work it off."""
    lines = chats(400, "tokens=4,itl=0.05")
    with bulk.client(api_key=keys[tenant]) as client:
        made = batches.submit(client, lines)
        batches.reach(client, made.id, answered(5))
        assert await one_by_one(bulk, keys[tenant], 30) == {200: 30}
        stands: Any = client.batches.cancel(made.id)
        assert stands.request_counts.completed < len(lines)
        ended = batches.finish(client, made.id)
        _, errors = batches.check_each_once(client, ended, lines)
        assert {one["error"]["code"] for one in errors} == {"batch_cancelled"}, "none was refused for good"


def test_a_small_batch_does_not_wait_for_the_end_of_a_large_one_of_another_tenant(
    bulk: Stack, keys: dict[str, str]
) -> None:
    with bulk.client(api_key=keys["whale"]) as whale, bulk.client(api_key=keys["minnow"]) as minnow:
        large = batches.submit(whale, chats(4000, SLOW, max_tokens=40))
        batches.reach(whale, large.id, answered(10))
        small = batches.run(minnow, chats(60, "tokens=4,itl=0.05"))
        assert small.status == "completed"
        assert small.request_counts.completed == 60
        left: Any = whale.batches.cancel(large.id)
        assert left.request_counts.completed < 4000


def test_batches_that_wait_for_a_new_day_let_others_pass(bulk: Stack, keys: dict[str, str]) -> None:
    """More slices than the processes take up at once."""
    with bulk.client(api_key=keys["used-up"]) as waiter, bulk.client(api_key=keys["minnow"]) as minnow:
        options: Any = {"endpoint": batches.CHAT, "completion_window": "24h"}
        file_id = batches.upload(waiter, chats(16 * 50))
        made = [waiter.batches.create(input_file_id=file_id, **options).id for _ in range(9)]
        for batch_id in made:
            batches.reach(waiter, batch_id, lambda one: one.status == "in_progress")
        assert batches.run(minnow, chats(5)).status == "completed"
        for batch_id in made:
            assert waiter.batches.cancel(batch_id).status == "cancelling"


async def test_users_are_answered_while_a_batch_fills_the_engines(bulk: Stack, keys: dict[str, str]) -> None:
    with bulk.client(api_key=keys["whale"]) as whale:
        made = batches.submit(whale, chats(2000, SLOW, max_tokens=40))
        batches.reach(whale, made.id, answered(10))
        bodies = [body_of("tokens=4,itl=0.02", qos_class) for qos_class in ("p0", "p1") * 20]
        answers = await post_all(bulk, bodies, keys["users"])
        assert Counter(answer.status_code for answer in answers) == {200: len(bodies)}
        stands: Any = whale.batches.cancel(made.id)
        assert stands.request_counts.completed < 2000
        ended = batches.finish(whale, made.id)
        assert ended.status == "cancelled"
    assert {outcome for _, outcome, *_ in batches.rows_of(bulk, ended)} <= {"completed", "cancelled"}
