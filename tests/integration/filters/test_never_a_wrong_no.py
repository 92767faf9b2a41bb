"""Why a copy is silent of what is young, and of what is as old as its generation: there it would be wrong."""

import pytest
from redis.asyncio import Redis
from things import Things, rebuilder

from caching.filters import replica as replicas
from caching.filters.replica import GRACE_MS, STRADDLE_MS, Existence, Replica
from caching.filters.truth import FilterTruth

ROOT = "sl:filter:things"
SAID = [(None, Existence.UNKNOWN), (0, Existence.NO)]
"""With the constant as it is; and, to show that it is needed, with none: then what exists is denied."""


@pytest.mark.parametrize(("constant_ms", "said"), SAID)
async def test_a_thing_added_after_the_last_sync_but_announced_before_it(
    truth: FilterTruth, redis: Redis, monkeypatch: pytest.MonkeyPatch, constant_ms: int | None, said: Existence
) -> None:
    monkeypatch.setattr(replicas, "GRACE_MS", GRACE_MS if constant_ms is None else constant_ms)
    await rebuilder(truth, Things()).rebuild()
    await redis.hset(ROOT, "clock", str(await truth.now_ms() + 2 * STRADDLE_MS))
    replica, made_at_ms = Replica(truth), await truth.now_ms()
    await replica.sync()
    await truth.add(b"a", made_at_ms)
    assert replica.look(b"a", made_at_ms) is said


@pytest.mark.parametrize(("constant_ms", "said"), SAID)
async def test_a_thing_added_before_the_generation_whose_row_comes_after_the_reading(
    truth: FilterTruth, redis: Redis, monkeypatch: pytest.MonkeyPatch, constant_ms: int | None, said: Existence
) -> None:
    monkeypatch.setattr(replicas, "STRADDLE_MS", STRADDLE_MS if constant_ms is None else constant_ms)
    made_at_ms = await truth.now_ms()
    await truth.add(b"a", made_at_ms)
    await rebuilder(truth, Things()).rebuild()
    await redis.hset(ROOT, "clock", str(await truth.now_ms() + GRACE_MS + 1))
    replica = Replica(truth)
    await replica.sync()
    assert replica.look(b"a", made_at_ms) is said
