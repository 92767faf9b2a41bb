"""Only what fits now is claimed, and who does not fit now is not overtaken for ever."""

from redis import Redis as SyncRedis

from domain.qos import QosClass
from tests.integration.ready import world
from tests.integration.ready.conftest import MakeItem
from workers.ready.ready_set import ReadySet
from workers.ready.verdict import Closed


async def names(ready: ReadySet, store: SyncRedis, free: int = 8, **options: object) -> list[str]:
    world.beat(store, "w1", free)
    return [one.request_id for one in (await world.claim(ready, "w1", free, **options)).items]  # type: ignore[arg-type]


async def test_prompts_and_expected_answers_must_fit_into_the_kv_cache(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    for n in range(4):
        await ready.admit(item(f"r{n}", prompt_tokens=100, output_tokens=50))
    assert await names(ready, store, kv_tokens=330) == ["r0", "r1"]
    assert await names(ready, store, kv_tokens=149) == []


async def test_the_expected_answer_is_learnt_from_those_that_ended(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("long", prompt_tokens=100, output_tokens=8000))
    assert await names(ready, store, kv_tokens=200) == []  # nobody knows yet how long answers are
    store.hset("sl:expect:m", "p1", 40)
    assert await names(ready, store, kv_tokens=200) == ["long"]


async def test_who_does_not_fit_is_not_overtaken_by_the_less_urgent(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("large", prompt_tokens=1000))
    await ready.admit(item("small", qos_class=QosClass.P2, prompt_tokens=10))
    await ready.admit(item("urgent", qos_class=QosClass.P0, prompt_tokens=10))
    assert await names(ready, store, kv_tokens=500) == ["urgent"]
    assert store.hget("sl:room:m:p1", "w1") == store.hget("sl:room:m:p2", "w1") == b"0"


async def test_an_idle_engine_takes_what_never_fits_better(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    await ready.admit(item("large", prompt_tokens=1000))
    assert await names(ready, store, kv_tokens=500, idle=True) == ["large"]


async def test_few_prompt_tokens_wait_inside_the_engine(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for n in range(4):
        await ready.admit(item(f"r{n}", prompt_tokens=3000))
    await ready.admit(item("urgent", qos_class=QosClass.P0, prompt_tokens=3000))
    budget = {"prefill_tokens": 8000, "max_prefill_tokens": 8000}
    assert await names(ready, store, **budget) == ["urgent", "r0"]
    assert await names(ready, store, **{**budget, "prefill_tokens": 100}) == []
    assert await names(ready, store, **{**budget, "max_prefill_tokens": 1000, "prefill_tokens": 1000}) == ["r1"]


async def test_the_bytes_that_wait_are_bounded(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    one = {"qos_class": QosClass.P2, "body": b"x" * 400, "max_waiting_bytes": 1000}
    for name in ("r1", "r2"):
        await ready.admit(item(name, **one))
    refused = await ready.admit(item("r3", **one))
    assert isinstance(refused, Closed)
    assert (refused.reason, refused.most) == ("queue_bytes", 1000)
    await names(ready, store, free=1)
    assert store.get("sl:bytes:m:p2") == b"400"
    assert not isinstance(await ready.admit(item("r3", **one)), Closed)


async def test_every_eighth_item_is_one_of_an_aged_class(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for name in ("oldest", "old", "young"):
        await ready.admit(item(name, qos_class=QosClass.P2))
    store.zadd("sl:ready:m:p2", {"oldest": 1, "old": 2})
    for n in range(40):
        await ready.admit(item(f"r{n:02}"))
    # Aged work may also use what is kept for more urgent classes.
    order = await names(ready, store, free=32, kept={QosClass.P2: 32})
    assert [place for place, name in enumerate(order) if not name.startswith("r")] == [7, 15]
    assert order[7] == "oldest"
    assert order[15] == "old"


async def test_turns_by_age_keep_the_order_between_tenants(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for n in range(4):
        await ready.admit(item(f"a{n}", tenant="early", qos_class=QosClass.P2))
    for n in range(4):
        await ready.admit(item(f"b{n}", tenant="late", qos_class=QosClass.P2))
    store.zadd("sl:ready:m:p2", {f"a{n}": n + 1 for n in range(4)})  # older than all of the late one's
    for n in range(40):
        await ready.admit(item(f"r{n:02}"))
    aged = [name for name in await names(ready, store, free=32) if not name.startswith("r")]
    assert sorted(aged) == ["a0", "a1", "b0", "b1"]


async def test_room_is_kept_for_an_aged_item_that_does_not_fit_yet(
    ready: ReadySet, item: MakeItem, store: SyncRedis
) -> None:
    await ready.admit(item("wide", qos_class=QosClass.P2, sequences=8))
    store.zadd("sl:ready:m:p2", {"wide": 1})
    for n in range(20):
        await ready.admit(item(f"r{n:02}"))
    await ready.admit(item("urgent", qos_class=QosClass.P0))
    assert len(await names(ready, store, free=7)) == 7
    await ready.admit(item("urgent too", qos_class=QosClass.P0))
    assert await names(ready, store, free=4) == ["urgent too"]
    assert await names(ready, store, free=4) == []
    assert (await names(ready, store, free=9))[0] == "wide"


async def test_output_counts_as_it_is_produced(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for n in range(3):
        await ready.admit(item(f"a{n}", tenant="talks", prompt_tokens=10))
        await ready.admit(item(f"b{n}", tenant="listens", prompt_tokens=10))
    assert await names(ready, store, free=2) == ["b0", "a0"]
    pipeline = ready.redis.pipeline(transaction=False)
    ready.queue_progress(pipeline, "w1", {"a0": 100, "b0": 1})
    ready.queue_progress(pipeline, "w1", {"a0": 100, "b0": 1})  # told twice, counted once
    await pipeline.execute()
    assert store.zscore("sl:turn:m:p1", "talks") == 10 + 2 * 100
    assert store.zscore("sl:turn:m:p1", "listens") == 10 + 2
    assert await names(ready, store, free=2) == ["b1", "b2"]


async def test_the_end_puts_the_estimate_right(ready: ReadySet, item: MakeItem, store: SyncRedis) -> None:
    for n in range(2):
        await ready.admit(item(f"a{n}", prompt_tokens=1000, weight=2.0))
    await names(ready, store, free=1)
    assert store.zscore("sl:turn:m:p1", "acme") == 500
    await world.finish(ready, "a0", "w1")  # 10 prompt tokens, 5 of the answer
    assert store.zscore("sl:turn:m:p1", "acme") == (10 + 2 * 5) / 2
    minute = next(iter(store.scan_iter("sl:tokens:*")))
    assert store.hgetall(minute) == {b"m|p1|acme": b"20"}
    assert store.lrange("sl:waits:m:p1", 0, -1) != []
