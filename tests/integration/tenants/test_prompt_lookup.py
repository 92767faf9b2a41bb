"""The way to a stored prompt, with a real store and the real database, in two processes."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from redis.exceptions import ConnectionError as StoreAway

from caching.filters import Existence
from domain.prompt_id import RANDOM_BYTES, make_id
from gateway.errors import ApiError
from tenants.models import Plan, StoredPrompt, Tenant
from tests.integration.tenants.prompt_processes import PER_S, Process, body, made_up

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
async def redis(store: Redis, valkey_url: str) -> AsyncIterator[AsyncRedis]:
    client = AsyncRedis.from_url(valkey_url)
    yield client
    await client.aclose()


@pytest.fixture
def both(redis: AsyncRedis) -> Iterator[tuple[Process, Process]]:
    processes = Process(redis), Process(redis)
    yield processes
    for process in processes:
        process.database.close()
        del process.finder.cold  # its filter must go in the thread that made it, and not whenever garbage is collected


@pytest.fixture
def process(both: tuple[Process, Process]) -> Process:
    return both[0]


@pytest.fixture
def acme(transactional_db: None) -> int:
    return make_tenant("acme")


@pytest.fixture
def other(transactional_db: None) -> int:
    return make_tenant("other")


def make_tenant(slug: str) -> int:
    plan, _ = Plan.objects.get_or_create(name="gold")
    return Tenant.objects.create(slug=slug, name=slug, plan=plan).pk


async def test_a_prompt_is_known_to_the_filter_before_it_is_found(process: Process, acme: int) -> None:
    made = await process.keeper.create(acme, body())

    assert process.known.added == [made.public_id]
    found = await process.finder.find(acme, made.public_id)
    assert found == made
    assert found.variables == ["name"]


@pytest.mark.parametrize("text", ["", "x", "prompt_", "prompt_" + "u" * 26, "PROMPT_" + "0" * 26, "sl:" * 500])
async def test_what_is_no_id_asks_nobody(process: Process, text: str) -> None:
    assert await process.status(1, text) == 404
    assert process.database.asked == 0


async def test_what_the_filter_denies_asks_nobody(process: Process, acme: int, store: Redis) -> None:
    process.known.says = Existence.NO
    before = store.info("commandstats")

    assert await process.status(acme, made_up(1)) == 404
    assert process.database.asked == 0
    assert {name for name in store.info("commandstats") if name not in before} <= {"cmdstat_info"}


async def test_what_the_copy_does_not_know_the_store_denies_without_the_database(process: Process, acme: int) -> None:
    process.known.says, process.known.store_says = Existence.UNKNOWN, Existence.NO

    assert [await process.status(acme, made_up(number)) for number in range(3 * PER_S)] == [404] * 3 * PER_S
    assert process.database.asked == 0


@pytest.mark.parametrize("store_says", [Existence.MAYBE, Existence.UNKNOWN])
async def test_what_the_store_does_not_deny_is_looked_for(process: Process, acme: int, store_says: Existence) -> None:
    process.known.says, process.known.store_says = Existence.UNKNOWN, store_says
    made = await process.keeper.create(acme, body())

    assert await process.status(acme, made.public_id) == 200
    assert await process.status(acme, made_up(1)) == 404
    asked = len(process.known.asked)
    assert await process.status(acme, made.public_id) == 200  # this process has it
    assert len(process.known.asked) == asked


async def test_what_the_copy_knows_is_not_asked_for_again(process: Process, acme: int) -> None:
    made = await process.keeper.create(acme, body())
    process.known.store_says = Existence.NO

    assert await process.status(acme, made.public_id) == 200
    assert process.known.asked == []


async def test_what_is_on_the_whitelist_passes_by_the_filter_and_is_no_more_than_it_is(
    process: Process, acme: int, other: int
) -> None:
    made = await process.keeper.create(acme, body())
    process.known.says = Existence.NO
    assert await process.status(acme, made.public_id) == 404

    process.hot |= {made.public_id.encode(), made_up(1).encode()}

    assert await process.status(acme, made.public_id) == 200
    assert await process.status(other, made.public_id) == 404
    assert await process.status(acme, made_up(1)) == 404


async def test_what_is_used_again_asks_nobody_for_a_second(process: Process, acme: int) -> None:
    made = await process.keeper.create(acme, body())
    await process.finder.find(acme, made.public_id)
    asked = process.database.asked
    for _ in range(5):
        await process.finder.find(acme, made.public_id)
        process.now_s += 0.19

    assert process.database.asked == asked


async def test_what_keeps_being_missed_goes_to_the_store_and_leaves_the_filter(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    for misses in (1, 2, 3):
        assert await process.rows.head(public_id) is None
        await process.finder.find(acme, public_id)
        assert (public_id in process.finder.cold) == (misses < 3)
        process.now_s += 2
    asked = process.database.asked

    assert process.finder.due == {public_id}
    assert await process.status(acme, public_id) == 200
    assert process.database.asked == asked


async def test_what_the_store_has_serves_every_process(both: tuple[Process, Process], acme: int) -> None:
    first, second = both
    made = await first.keeper.create(acme, body())
    await first.warm(acme, made.public_id)

    assert await second.finder.find(acme, made.public_id) == made
    assert second.database.asked == 0


async def test_those_who_look_at_once_ask_once(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    asked = process.database.asked

    found = await asyncio.gather(*(process.finder.find(acme, public_id) for _ in range(50)))
    assert len({id(one) for one in found}) == 1
    assert process.database.asked == asked + 1


async def test_who_stops_waiting_leaves_the_answer_to_the_others(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    leaver, stayer = (asyncio.create_task(process.finder.find(acme, public_id)) for _ in range(2))
    await asyncio.sleep(0)
    leaver.cancel()

    assert (await stayer).public_id == public_id


async def test_who_looks_after_a_change_gets_nothing_that_was_found_before_it(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body("one"))).public_id
    early = asyncio.create_task(process.finder.find(acme, public_id))
    await asyncio.sleep(0)
    process.finder.forget(public_id)
    asked = process.database.asked
    late = asyncio.create_task(process.finder.find(acme, public_id))

    assert (await early).public_id == (await late).public_id
    assert process.database.asked == asked + 2


async def test_who_comes_a_second_later_does_not_wait_with_the_first(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body("one"))).public_id
    early = asyncio.create_task(process.finder.find(acme, public_id))
    await asyncio.sleep(0)
    asked = process.database.asked
    process.now_s += 1
    late = asyncio.create_task(process.finder.find(acme, public_id))

    assert (await early).public_id == (await late).public_id
    assert process.database.asked == asked + 2


async def test_an_absent_id_is_asked_for_once_in_five_seconds(process: Process, acme: int) -> None:
    assert [await process.status(acme, made_up(1)) for _ in range(3)] == [404] * 3
    assert process.database.asked == 1
    assert process.known.not_there == [made_up(1)]
    process.now_s += 5.1
    assert await process.status(acme, made_up(1)) == 404
    assert process.database.asked == 2


async def test_an_id_that_is_absent_and_young_is_not_remembered(process: Process, acme: int) -> None:
    """Its row may be on its way: it must be found the moment that it is there."""
    young = make_id(2**47, bytes(RANDOM_BYTES))
    assert await process.status(acme, young) == 404
    await process.database.ask(acme, lambda: add_row(acme, young))

    assert await process.status(acme, young) == 200


def add_row(tenant_id: int, public_id: str) -> None:
    prompt = StoredPrompt.objects.create(tenant_id=tenant_id, public_id=public_id)
    prompt.versions.create(number=1, messages=[{"role": "user", "content": "a"}])


@pytest.mark.parametrize("says", [Existence.UNKNOWN, Existence.MAYBE])
async def test_absent_ids_are_bounded_and_never_called_absent_unasked(
    process: Process, acme: int, other: int, says: Existence
) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    await process.finder.find(acme, public_id)
    cold = (await process.keeper.create(acme, body())).public_id
    process.known.says = says
    asked = process.database.asked
    statuses = [await process.status(acme, made_up(number)) for number in range(20)]

    assert statuses == [404] * PER_S + [429] * 15
    assert process.database.asked == asked + PER_S
    # A valid one that was not used lately is refused for now, not denied; one that was goes on; others do not notice.
    assert await process.status(acme, cold) == 429
    process.now_s += 0.001
    assert await process.status(acme, public_id) == 200
    assert await process.status(other, made_up(99)) == 404
    process.now_s += 1.1
    assert await process.status(acme, cold) == 200
    assert len(process.known.not_there) == (PER_S + 1) * (says is Existence.MAYBE)


async def test_one_that_was_used_lately_is_found_while_others_are_bounded(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    await process.finder.find(acme, public_id)
    process.now_s += 1.1  # not fresh any more, and not in the store
    for number in range(20):
        await process.status(acme, made_up(number))

    assert await process.status(acme, made_up(50)) == 429
    assert await process.status(acme, public_id) == 200


async def test_the_refusal_says_when_to_come_back(process: Process, acme: int) -> None:
    for number in range(PER_S):
        await process.status(acme, made_up(number))
    with pytest.raises(ApiError) as caught:
        await process.finder.find(acme, made_up(99))

    assert caught.value.reason == "unknown_prompts"
    assert 0 < int(caught.value.headers["retry-after-ms"]) <= 200
    assert caught.value.headers["retry-after"] == "1"


async def test_another_tenants_prompt_is_told_like_none(both: tuple[Process, Process], acme: int, other: int) -> None:
    first, second = both
    public_id = (await first.keeper.create(acme, body())).public_id

    async def told(process: Process, name: str) -> tuple[int, str]:
        with pytest.raises(ApiError) as caught:
            await process.finder.find(other, name)
        return caught.value.status, caught.value.body().decode().replace(name, "ID")

    none = await told(second, made_up(1))
    assert await told(second, public_id) == none  # from the database
    await first.warm(acme, public_id)
    second.now_s += 10
    assert await told(second, public_id) == none  # from the store
    assert await told(first, public_id) == none  # from its own memory
    assert second.known.not_there == [made_up(1)]
    with pytest.raises(ApiError) as caught:
        await second.keeper.delete(other, public_id)
    assert caught.value.status == 404
    assert await first.status(acme, public_id) == 200


@pytest.mark.parametrize("warm", [False, True])
async def test_a_deletion_is_seen_at_once_here_and_within_a_second_there(
    both: tuple[Process, Process], acme: int, warm: bool
) -> None:
    first, second = both
    public_id = (await first.keeper.create(acme, body())).public_id
    if warm:
        await first.warm(acme, public_id)
    for process in both:
        assert await process.status(acme, public_id) == 200
    await first.keeper.delete(acme, public_id)

    assert first.known.rebuilds == 1
    assert await first.status(acme, public_id) == 404
    second.now_s += 1
    assert await second.status(acme, public_id) == 404
    assert not await second.database.ask(acme, StoredPrompt.objects.exists)


@pytest.mark.parametrize("warm", [False, True])
async def test_a_new_version_is_the_latest_within_a_second(
    both: tuple[Process, Process], acme: int, warm: bool
) -> None:
    first, second = both
    public_id = (await first.keeper.create(acme, body("one"))).public_id
    if warm:
        await first.warm(acme, public_id)
    for process in both:
        await process.finder.find(acme, public_id)
    await first.keeper.add_version(acme, public_id, body("two"))

    assert (await first.finder.find(acme, public_id)).number == 2
    second.now_s += 1
    assert (await second.finder.find(acme, public_id)).number == 2
    assert (await second.finder.find(acme, public_id, 1)).decoded()[0].content == "one"
    assert await second.status(acme, public_id, 3) == 404


async def test_a_row_that_was_read_before_a_change_does_not_come_back_after_it(process: Process, acme: int) -> None:
    made = await process.keeper.create(acme, body("one"))
    await process.warm(acme, made.public_id)
    head = await process.rows.head(made.public_id)
    assert head is not None
    await process.keeper.add_version(acme, made.public_id, body("two"))

    assert not await process.rows.put(made.public_id, head, 1, made.pack())
    assert await process.rows.head(made.public_id) is None


async def test_a_store_that_comes_back_empty_denies_nothing(
    both: tuple[Process, Process], acme: int, store: Redis
) -> None:
    first, _ = both
    public_id = (await first.keeper.create(acme, body())).public_id
    await first.warm(acme, public_id)
    store.flushall()
    first.now_s += 2

    assert [await process.status(acme, public_id) for process in both] == [200, 200]


async def test_a_row_of_another_form_is_read_anew(both: tuple[Process, Process], acme: int, store: Redis) -> None:
    first, second = both
    public_id = (await first.keeper.create(acme, body())).public_id
    await first.warm(acme, public_id)
    head = await first.rows.head(public_id)
    assert head is not None
    store.delete(f"sl:prompt:{public_id}")
    await first.rows.put(public_id, head, 1, b'["of another release"]')

    assert await second.status(acme, public_id) == 200


async def test_no_store_is_told_and_holds_what_is_fresh(
    process: Process, acme: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    await process.finder.find(acme, public_id)

    async def away(*_: Any, **__: Any) -> None:
        raise StoreAway("away")

    for name in ("head", "read", "put", "changing"):
        monkeypatch.setattr(process.rows, name, away)
    assert await process.status(acme, public_id) == 200
    process.now_s += 2
    assert await process.status(acme, public_id) == 503
    assert await process.status(acme, made_up(1)) == 503
    monkeypatch.undo()
    assert await process.status(acme, public_id) == 200


async def test_no_database_is_told_and_holds_what_is_warm(process: Process, acme: int) -> None:
    warm = (await process.keeper.create(acme, body())).public_id
    await process.warm(acme, warm)
    cold = (await process.keeper.create(acme, body())).public_id
    process.database.away = True

    assert await process.status(acme, warm) == 200
    assert await process.status(acme, cold) == 503
    with pytest.raises(ApiError) as caught:
        await process.keeper.create(acme, body())
    assert caught.value.reason == "prompts_unavailable"
    process.database.away = False
    assert await process.status(acme, cold) == 200


async def test_a_change_that_failed_leaves_the_prompt_as_it_was(process: Process, acme: int) -> None:
    public_id = (await process.keeper.create(acme, body())).public_id
    await process.warm(acme, public_id)
    await process.finder.find(acme, public_id)
    process.database.away = True
    with pytest.raises(ApiError) as caught:
        await process.keeper.delete(acme, public_id)
    process.database.away = False

    assert caught.value.status == 503
    assert await process.status(acme, public_id) == 200
