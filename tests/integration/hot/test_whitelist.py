"""The whitelist over gateways, store and database: how it comes to be, and what happens when one of them is away."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import OperationalError
from django.utils import timezone
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from caching.hot.sketch_ring import WINDOW_S
from gateway import hot_leader
from tenants import hot_keys, whitelist
from tenants.models import HotKey, Plan, Tenant
from tests.integration.hot.conftest import Gateways
from tests.stack import free_port

KEY, OTHER = bytes(range(16)), bytes(range(16, 32))
State = HotKey.State


@sync_to_async
def in_database(work: Callable[[], Any]) -> Any:
    return work()


async def rows() -> dict[str, HotKey]:
    return {row.key: row async for row in HotKey.objects.all()}


@pytest.fixture
async def tenant(gateways: Gateways) -> Tenant:
    return await in_database(
        lambda: Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))
    )


@pytest.fixture
async def ada(gateways: Gateways) -> User:
    return await in_database(lambda: User.objects.create_user("ada"))


def count(gateways: Gateways, tenant: Tenant, key: bytes, each: int) -> None:
    for gateway in gateways.both:
        for _ in range(each):
            gateway.count("answer", key, tenant.pk, "m1")


async def set_key(state: str, key: bytes, user: User, until: datetime | None = None) -> HotKey:
    def work() -> HotKey:
        row = HotKey.objects.filter(key=key.hex()).first() or HotKey(kind="answer", key=key.hex())
        whitelist.set_rows([row], state, until or whitelist.default_end(), user)
        return row

    return await in_database(work)


async def test_what_all_gateways_counted_together_is_hot_in_each(gateways: Gateways, tenant: Tenant) -> None:
    count(gateways, tenant, KEY, 2)  # too few in each of them alone
    gateways.both[0].count("answer", OTHER, tenant.pk, "m1")

    await gateways.next_window()

    assert [one.is_hot(KEY) for one in gateways.both] == [True, True]
    assert [one.is_hot(OTHER) for one in gateways.both] == [False, False]
    (row,) = (await rows()).values()
    assert (row.key, row.state, row.tenant_id, row.model) == (KEY.hex(), State.AUTO, tenant.pk, "m1")
    assert row.rate_per_minute == pytest.approx(4 * 60 / WINDOW_S)
    assert row.last_seen_at == datetime.fromtimestamp(gateways.clock.now_s - WINDOW_S / 2, UTC)


async def test_rate_and_trend_follow_what_is_counted(gateways: Gateways, tenant: Tenant) -> None:
    for each in (5, 5, 15):
        count(gateways, tenant, KEY, each)
        await gateways.next_window()

    row = (await rows())[KEY.hex()]
    assert row.rate_per_minute == pytest.approx(50 * 60 / (3 * WINDOW_S))
    assert row.trend == pytest.approx(2.0)


async def test_a_stored_prompt_is_named_by_its_id(gateways: Gateways, tenant: Tenant) -> None:
    for _ in range(3):
        gateways.both[0].count("prompt", b"prompt_1", tenant.pk, "m1")

    await gateways.next_window()

    assert gateways.both[1].is_hot(b"prompt_1")
    assert (await rows())["prompt_1"].kind == HotKey.Kind.PROMPT


async def test_the_list_holds_as_many_keys_as_are_set(gateways: Gateways, tenant: Tenant) -> None:
    for number in range(30):
        count(gateways, tenant, number.to_bytes(16), 5 + number)

    await gateways.next_window()

    assert gateways.both[0].listed.hot == {number.to_bytes(16) for number in range(20, 30)}
    assert len(await rows()) == 10


async def test_a_key_that_cools_leaves_the_list_at_once_and_the_page_after_a_while(
    gateways: Gateways, tenant: Tenant
) -> None:
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()

    for _ in range(6):
        await gateways.next_window()
    assert not gateways.both[0].is_hot(KEY)
    assert (await rows())[KEY.hex()].rate_per_minute == 0

    await gateways.next_window(hot_keys.KEEP_COLD.total_seconds())
    assert await rows() == {}


async def test_nothing_is_written_while_nobody_asks(
    gateways: Gateways, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await gateways.next_window()
    monkeypatch.setattr(hot_keys, "_write", lambda *args: pytest.fail("something was written"))
    monkeypatch.setattr(gateways.redis, "hset", lambda *args, **kwargs: pytest.fail("something was published"))

    for _ in range(3):
        await gateways.next_window()

    assert {one.trouble for one in gateways.both} == {""}


async def test_another_gateway_goes_on_when_the_one_that_made_the_list_is_gone(
    gateways: Gateways, tenant: Tenant
) -> None:
    holder = await gateways.redis.get("sl:hot:leader")
    assert holder == b"g1"
    await gateways.redis.persist("sl:hot:leader")
    gateways.both = gateways.both[1:]
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()
    assert not gateways.both[0].is_hot(KEY)  # nobody makes the list while the lease lasts

    await gateways.redis.delete("sl:hot:leader")  # as it does when the lease ends
    await gateways.next_window()

    assert gateways.both[0].is_hot(KEY)
    assert await gateways.redis.get("sl:hot:leader") == b"g2"


async def test_one_that_stops_hands_the_work_over(gateways: Gateways) -> None:
    await gateways.both[0].stop()

    await gateways.both[1].look()

    assert await gateways.redis.get("sl:hot:leader") == b"g2"


async def test_a_store_that_lost_everything_gets_the_list_from_the_database(
    gateways: Gateways, tenant: Tenant, ada: User
) -> None:
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()
    await set_key(State.PINNED, OTHER, ada)
    await gateways.look(2)

    await gateways.redis.flushall()
    await gateways.look(2)
    new = gateways.make("g3")
    await new.look()

    for one in [*gateways.both, new]:
        assert one.is_hot(KEY)
        assert one.is_pinned(OTHER)


async def test_gateways_that_start_with_an_empty_store_know_what_is_in_the_database(
    gateways: Gateways, tenant: Tenant, ada: User
) -> None:
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()
    await set_key(State.BANNED, OTHER, ada)
    await gateways.redis.flushall()

    new = gateways.make("g3")
    await new.look()

    assert new.is_hot(KEY)
    assert new.is_banned(OTHER)


async def test_what_operators_set_holds_in_every_gateway_without_waiting_for_a_window(
    gateways: Gateways, tenant: Tenant, ada: User
) -> None:
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()
    told: list[frozenset[bytes]] = []
    gateways.both[1].tell(told.append)

    pinned = await set_key(State.PINNED, OTHER, ada)
    banned = await set_key(State.BANNED, KEY, ada)
    await gateways.look(2)

    for one in gateways.both:
        assert (one.is_pinned(OTHER), one.is_hot(OTHER), one.is_banned(OTHER)) == (True, True, False)
        assert (one.is_pinned(KEY), one.is_hot(KEY), one.is_banned(KEY)) == (False, False, True)
    assert told == [frozenset({KEY}), frozenset({OTHER})]

    await in_database(lambda: whitelist.release([pinned, banned], ada))
    await gateways.look(2)

    for one in gateways.both:
        assert (one.is_hot(OTHER), one.is_banned(KEY), one.is_hot(KEY)) == (False, False, True)


async def test_counting_leaves_what_operators_set_as_it_is(gateways: Gateways, tenant: Tenant, ada: User) -> None:
    await set_key(State.PINNED, KEY, ada)
    count(gateways, tenant, KEY, 5)

    await gateways.next_window()

    row = (await rows())[KEY.hex()]
    assert (row.state, row.changed_by_name) == (State.PINNED, "ada")
    assert row.expires_at is not None
    assert row.rate_per_minute > 0


async def test_a_pin_that_is_over_is_gone(gateways: Gateways, ada: User) -> None:
    await set_key(State.PINNED, KEY, ada, timezone.now() + timedelta(hours=1))
    await gateways.look(2)
    assert gateways.both[1].is_pinned(KEY)

    await gateways.next_window(3600 + WINDOW_S)

    assert not gateways.both[1].is_pinned(KEY)
    assert State.PINNED not in {row.state for row in (await rows()).values()}


async def test_while_the_store_is_away_each_goes_on_with_what_it_has(
    gateways: Gateways, tenant: Tenant, ada: User
) -> None:
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()
    away = Redis.from_url(f"redis://127.0.0.1:{free_port()}", retry=Retry(NoBackoff(), 0))
    for one in gateways.both:
        one.connect(away)
    await set_key(State.PINNED, OTHER, ada)

    count(gateways, tenant, OTHER, 5)
    gateways.clock.now_s += WINDOW_S
    await gateways.look(2)
    assert [one.is_hot(KEY) for one in gateways.both] == [True, True]

    await gateways.redis.delete("sl:hot:leader")  # the lease is over by now
    for one in gateways.both:
        one.connect(gateways.redis)
    await gateways.next_window()
    assert [one.is_pinned(OTHER) for one in gateways.both] == [True, True]
    assert (await rows())[OTHER.hex()].rate_per_minute > 0  # what was counted meanwhile was kept
    await away.aclose()


async def test_while_the_database_is_away_keys_are_hot_and_pins_stay(
    gateways: Gateways, tenant: Tenant, ada: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    await set_key(State.PINNED, OTHER, ada)
    await gateways.look(2)

    def fail(*args: Any) -> None:
        raise OperationalError("away")

    monkeypatch.setattr(hot_leader, "record_found", fail)
    count(gateways, tenant, KEY, 5)
    await gateways.next_window()

    for one in gateways.both:
        assert one.is_hot(KEY)
        assert one.is_pinned(OTHER)


async def test_keys_of_a_tenant_that_was_deleted_meanwhile_are_left_out(gateways: Gateways, tenant: Tenant) -> None:
    count(gateways, tenant, KEY, 5)
    for _ in range(5):
        gateways.both[0].count("answer", OTHER, 987, "m1")

    await gateways.next_window()

    assert list(await rows()) == [KEY.hex()]
    assert not gateways.both[0].is_hot(OTHER)
