"""The filters as a gateway runs them: over the real database, by its own loops."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from django.conf import settings
from prometheus_client import REGISTRY
from redis.asyncio import Redis
from redis.exceptions import RedisError

from domain.prompt_id import RANDOM_BYTES, make_id
from gateway import filters as gateway_filters
from gateway.database import Database
from gateway.filters import Existence, Filters
from tenants.models import Plan, StoredPrompt, Tenant

pytestmark = pytest.mark.django_db(transaction=True)

ABSENT = make_id(1_000, b"x" * RANDOM_BYTES)


@pytest.fixture
async def filters(redis: Redis, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Filters]:
    """Running, and quick."""
    monkeypatch.setattr(gateway_filters, "POLL_S", 0.02)
    monkeypatch.setattr(gateway_filters, "BACKOFF_S", 0.05)
    monkeypatch.setattr(gateway_filters, "REST_S", 0.05)
    database = Database()
    made = Filters(redis, database, replace(settings.SLUICE, filter_keys=1_000))
    made.start()
    yield made
    await made.stop()
    database.close()


async def stored(number: int) -> list[str]:
    """Prompts that were there before."""

    def store() -> list[str]:
        plan, _ = Plan.objects.get_or_create(name="gold")
        tenant, _ = Tenant.objects.get_or_create(slug="acme", name="acme", plan=plan)
        ids = [make_id(2_000, index.to_bytes(RANDOM_BYTES)) for index in range(number)]
        StoredPrompt.objects.bulk_create(StoredPrompt(tenant=tenant, public_id=one) for one in ids)
        return ids

    return await asyncio.to_thread(store)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not what():
            await asyncio.sleep(0.02)


def figure(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, {"filter": "prompts", **labels}) or 0.0


async def test_it_finds_out_by_itself_what_exists_and_again_after_a_flush(
    filters: Filters, redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_filters, "CHUNK", 7)
    ids = await stored(30)
    rebuilt = figure("sluice_filter_rebuilds_total", why="lost")
    await filters.ask_rebuild()  # the rows may have come after the first reading
    await until(lambda: filters.look(ids[-1]) is Existence.MAYBE)
    assert {filters.look(one) for one in ids} == {Existence.MAYBE}
    await until(lambda: filters.look(ABSENT) is Existence.NO)
    first = filters.replica.generation
    await redis.flushall()
    await until(lambda: filters.replica.generation is not first and filters.look(ABSENT) is Existence.NO)
    assert {filters.look(one) for one in ids} == {Existence.MAYBE}
    await until(lambda: figure("sluice_filter_rebuilds_total", why="lost") >= rebuilt + 2)
    await until(lambda: figure("sluice_filter_looks_total", result="no") > 0)
    assert figure("sluice_filter_generation_begun_timestamp_seconds") > 0
    assert 0 < figure("sluice_filter_fill_ratio") < 0.5


async def test_what_is_added_is_known_at_once_and_what_was_announced_too_long_ago_is_refused(filters: Filters) -> None:
    await until(lambda: filters.look(ABSENT) is Existence.NO)
    public_id = make_id(await filters.announce(), b"a" * RANDOM_BYTES)
    assert filters.look(public_id) is Existence.UNKNOWN
    await filters.add(public_id)
    await until(lambda: filters.look(public_id) is Existence.MAYBE)
    with pytest.raises(RedisError):
        await filters.add(ABSENT)


async def test_what_was_deleted_leaves_the_filter(filters: Filters) -> None:
    (gone,) = await stored(1)
    await filters.ask_rebuild()
    await until(lambda: filters.look(gone) is Existence.MAYBE)
    await asyncio.to_thread(StoredPrompt.objects.all().delete)
    before = figure("sluice_filter_false_positives_total")
    filters.was_absent(gone)
    assert figure("sluice_filter_false_positives_total") == before + 1
    await filters.ask_rebuild()
    await until(lambda: filters.look(gone) is Existence.NO)


async def test_without_the_database_it_knows_nothing_and_goes_on_when_it_is_back(
    filters: Filters, redis: Redis
) -> None:
    await until(lambda: filters.look(ABSENT) is Existence.NO)

    async def away(_: object) -> int:
        raise OSError

    gone = pytest.MonkeyPatch()
    gone.setattr(gateway_filters.PromptSource, "count", away)
    await redis.flushall()
    await until(lambda: filters.look(ABSENT) is Existence.UNKNOWN)
    await asyncio.sleep(0.2)
    assert filters.look(ABSENT) is Existence.UNKNOWN
    gone.undo()
    await until(lambda: filters.look(ABSENT) is Existence.NO)
