"""A store that began anew learns from the database what was used before, and lets nobody in until it has."""

import asyncio
import dataclasses
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connections
from redis import Redis as SyncRedis
from redis.asyncio import Redis

from domain.config import Config
from domain.limits import Level, Span
from domain.qos import QosClass
from gateway import admission, seeding
from gateway.errors import ApiError
from gateway.runtime import Runtime
from gateway.schema import Ask
from gateway.seeding import Seeder
from tenants.adjust import make_adjustment
from tenants.models import Adjustment, ApiKey, Plan, Tenant
from tenants.snapshot import Principal
from tenants.usage import UsageRow, record_usage
from tests.integration.ready import world
from tests.integration.ready.conftest import ITEM, MakeItem
from tracing import colour
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Admitted, Gap, OverLimit, Unknown

pytestmark = pytest.mark.django_db(transaction=True)


@dataclasses.dataclass
class Account:
    """One tenant with one key, as the database has it."""

    tenant_id: int
    key_id: int

    def use(self, requests: int, at: datetime | None = None) -> None:
        """Write usage rows of 10 prompt tokens, 5 answer tokens and a cost of 7 each."""
        moment = at or datetime.now(UTC) - timedelta(milliseconds=5)
        record_usage([self._row(f"{moment.timestamp()}-{number}", moment) for number in range(requests)])

    def _row(self, request_id: str, at: datetime) -> UsageRow:
        return UsageRow(
            request_id=request_id,
            tenant_id=self.tenant_id,
            key_id=self.key_id,
            model="m",
            model_version="",
            qos_class="p1",
            endpoint="chat",
            stream=True,
            outcome="completed",
            status=200,
            error_code="",
            prompt_tokens=10,
            cached_tokens=0,
            completion_tokens=5,
            cost_nano=7,
            price_id=None,
            retry_attempt=0,
            rollback_cause="",
            batch_id="",
            worker_id="",
            gateway_id="",
            admitted_at=at,
            claimed_at=None,
            first_token_at=None,
            finished_at=at,
        )


@pytest.fixture
def account() -> Account:
    tenant = Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))
    key = ApiKey.objects.create(tenant=tenant, name="k", prefix="abcdefgh", digest="0" * 64)
    return Account(tenant.pk, key.pk)


@pytest.fixture
def item(account: Account) -> MakeItem:
    def make(request_id: str, **changes: object) -> object:
        ids = {"tenant_id": account.tenant_id, "key_id": account.key_id}
        return dataclasses.replace(ITEM, request_id=request_id, **{**ids, **changes})

    return make  # type: ignore[return-value]


class Gateway:
    """What one gateway process admits with."""

    def __init__(self, ready: ReadySet) -> None:
        self.runtime = Runtime(Config(affinity=False))
        self.runtime.ready, self.runtime.seeder = ready, Seeder(ready)

    async def admit(self, account: Account, limits: tuple[object, ...]) -> int:
        """Admit a request; the status that its client sees."""
        principal = Principal(
            tenant_id=account.tenant_id,
            tenant="acme",
            key_id=account.key_id,
            key_prefix="abcdefgh",
            plan="gold",
            best_class=QosClass.P1,
            weight=1.0,
            limits=limits,
            allowed_models=None,
            cache_salt="0" * 32,
            scopes=frozenset(),
            allowed_addresses=(),
            retention_hours=0,
        )  # type: ignore[arg-type]
        ask = Ask("chat", "m", False, False, None, 5, 1, 40, prompt_tokens=10)
        try:
            await admission.admit(self.runtime, principal, ask, b"{}", colour.begin([]))
        except ApiError as error:
            return error.status
        return 200


@pytest.fixture
async def gateways(ready: ReadySet, valkey_url: str) -> AsyncIterator[tuple[Gateway, Gateway]]:
    other = ReadySet(Redis.from_url(valkey_url))
    pair = Gateway(ready), Gateway(other)
    yield pair
    for one in pair:
        one.runtime.seeder.stop()
        one.runtime.database.close()
    await other.redis.aclose()


@pytest.fixture(autouse=True)
def _close_the_threads_connections() -> Iterator[None]:
    yield
    connections.close_all()


async def test_of_fifty_parallel_requests_after_a_flush_exactly_what_is_left_of_the_day_is_admitted(
    gateways: tuple[Gateway, Gateway], account: Account, redis: Redis
) -> None:
    await asyncio.to_thread(account.use, 3)
    limits = world.limits(requests_per_day=5) + world.limits(Level.KEY, requests_per_day=1_000)
    statuses = await asyncio.gather(*(gateways[number % 2].admit(account, limits) for number in range(50)))
    assert Counter(statuses) == {200: 2, 429: 48}


async def test_a_month_is_seeded_with_its_rows_and_adjustments_and_nothing_else(
    gateways: tuple[Gateway, Gateway], account: Account, store: SyncRedis
) -> None:
    now = datetime.now(UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    await asyncio.to_thread(account.use, 3)
    await asyncio.to_thread(account.use, 50, month - timedelta(seconds=1))
    await Adjustment.objects.acreate(tenant_id=account.tenant_id, month=month.date(), cost_nano=-4, tokens=100)
    assert await gateways[0].admit(account, world.limits(tokens_per_month=1_000)) == 200
    found = world.spent(store, Level.TENANT, account.tenant_id, Span.MONTH)
    assert [found[name] for name in ("r", "i", "o", "c", "a", "hr", "hi", "ho")] == [3, 30, 15, 17, 100, 1, 10, 5]
    # 145 tokens are used and 15 held: 15 more fit into 175, and not into 174.
    assert await gateways[0].admit(account, world.limits(tokens_per_month=174)) == 429
    assert await gateways[0].admit(account, world.limits(tokens_per_month=175)) == 200


async def test_an_adjustment_counts_in_a_month_in_which_nobody_has_asked_for_anything_yet(
    gateways: tuple[Gateway, Gateway], account: Account, store: SyncRedis
) -> None:
    store.set("sl:born", 1)
    tenant = await Tenant.objects.aget(pk=account.tenant_id)
    await asyncio.to_thread(make_adjustment, tenant, datetime.now(UTC).date(), 0, 100, "extra work", None, store)
    limits = world.limits(tokens_per_month=114)
    assert await gateways[0].admit(account, limits) == 429
    assert await gateways[0].admit(account, world.limits(tokens_per_month=115)) == 200
    await asyncio.to_thread(make_adjustment, tenant, datetime.now(UTC).date(), 0, -15, "taken back", None, store)
    assert await gateways[0].admit(account, world.limits(tokens_per_month=115)) == 200
    assert world.spent(store, Level.TENANT, account.tenant_id, Span.MONTH)["a"] == 85


async def test_a_key_whose_counts_were_deleted_gets_them_back(
    gateways: tuple[Gateway, Gateway], account: Account, store: SyncRedis
) -> None:
    limits = world.limits(Level.KEY, requests_per_day=5)
    assert await gateways[0].admit(account, limits) == 200
    store.delete(*store.keys("sl:spent:k:*"))
    await asyncio.to_thread(account.use, 5)
    assert await gateways[1].admit(account, limits) == 429
    assert world.spent(store, Level.KEY, account.key_id, Span.DAY)["r"] == 5


async def test_limits_of_days_and_months_are_closed_while_the_database_is_away(
    gateways: tuple[Gateway, Gateway], account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("gone")

    monkeypatch.setattr(seeding, "spent", away)
    for limits in (world.limits(requests_per_day=5), world.limits(Level.KEY, tokens_per_month=500)):
        assert await gateways[0].admit(account, limits) == 503
    # Nothing of these depends on what was used before.
    assert await gateways[0].admit(account, world.limits(requests_per_minute=5, max_concurrent=5)) == 200
    monkeypatch.undo()
    assert await gateways[0].admit(account, world.limits(requests_per_day=5)) == 200


async def test_what_ended_and_has_no_row_yet_is_waited_for(
    gateways: tuple[Gateway, Gateway], account: Account, store: SyncRedis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "SEEDING_S", 0.3)
    ended = datetime.now(UTC)
    store.xadd("sl:settle", {"rid": "r0"}, id=f"{int(time.time() * 1000) - 1}-0")
    limits = world.limits(Level.KEY, requests_per_day=1)
    assert await gateways[0].admit(account, limits) == 503
    await asyncio.to_thread(account.use, 1, ended)
    store.xtrim("sl:settle", 0)
    assert await gateways[0].admit(account, limits) == 429


async def test_totals_on_which_no_limit_depends_are_completed_in_the_background(
    gateways: tuple[Gateway, Gateway], account: Account, store: SyncRedis
) -> None:
    await asyncio.to_thread(account.use, 3)
    assert await gateways[0].admit(account, ()) == 200
    await asyncio.gather(*gateways[0].runtime._background)
    for span in (Span.DAY, Span.MONTH):
        found = world.spent(store, Level.TENANT, account.tenant_id, span)
        assert (found["base"], found["r"], found["hr"]) == (1, 3, 1)


async def test_a_gap_is_filled_once_and_only_where_it_was_seen(
    ready: ReadySet, item: MakeItem, store: SyncRedis, account: Account
) -> None:
    one = item("r1", limits=world.limits(requests_per_day=5))
    verdict = await ready.admit(one)
    assert isinstance(verdict, Unknown)
    gap = next(gap for gap in verdict.gaps if gap.period.startswith("d"))
    earlier = Gap(gap.level, gap.period, gap.since_ms - 1)
    assert not await ready.seed(account.tenant_id, earlier, (9, 9, 9, 9, 0))  # of a hash that is gone
    await world.fill(ready, account.tenant_id, gap, (4, 40, 20, 28, 0))
    assert await ready.seed(account.tenant_id, gap, (4, 40, 20, 28, 0))
    assert isinstance(await ready.admit(one), Admitted)
    assert isinstance(await ready.admit(item("r2", limits=one.limits)), OverLimit)
    assert world.spent(store, Level.TENANT, account.tenant_id, Span.DAY)["r"] == 4


async def test_a_period_that_begins_while_the_store_counts_asks_nobody(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    store.set("sl:born", 1)
    assert isinstance(await ready.admit(item("r1", limits=world.limits(requests_per_day=5))), Admitted)


async def test_what_ended_in_the_moment_in_which_counting_began_is_counted_once(
    ready: ReadySet, item: MakeItem, store: SyncRedis, account: Account
) -> None:
    world.beat(store, "w1", 4)
    await ready.admit(item("r1"))
    await world.claim(ready, "w1", 4)
    (key,) = store.keys("sl:spent:t:*:d*")
    later = int(time.time() * 1000) + 60_000
    store.hset(key, "since", later)  # as if counting began only then: the database will know of it
    await world.finish(ready, "r1", "w1")
    assert world.spent(store, Level.TENANT, account.tenant_id, Span.DAY).get("r", 0) == 0
    assert world.held(store) == {}
    assert world.spent(store, Level.TENANT, account.tenant_id, Span.MONTH)["r"] == 1


async def test_a_gap_stays_open_in_the_ms_in_which_it_was_seen(
    ready: ReadySet, item: MakeItem, store: SyncRedis, account: Account
) -> None:
    """What ends in that ms is counted by neither, if the database was asked before it ended."""
    verdict = await ready.admit(item("r1", limits=world.limits(requests_per_day=5)))
    assert isinstance(verdict, Unknown)
    gap = next(gap for gap in verdict.gaps if gap.period.startswith("d"))
    [key] = store.keys(f"sl:spent:t:{account.tenant_id}:d*")
    later = gap._replace(since_ms=gap.since_ms + 100)
    store.hset(key, "since", later.since_ms)
    assert not await ready.seed(account.tenant_id, later, world.NOTHING)
    assert store.hget(key, "base") is None
    await world.fill(ready, account.tenant_id, later, world.NOTHING)
    assert store.hget(key, "base") == b"1"
