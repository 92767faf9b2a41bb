"""Helpers of the ready set's tests: workers, claims, endings, and what must hold at rest."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from redis import Redis as SyncRedis

from domain.limits import Level, Limit, Span
from domain.qos import QosClass
from domain.usage import Usage
from workers import wire
from workers.ready import scripts
from workers.ready.item import Affinity, Claim, ClassRoom, Ending, NewItem, Room
from workers.ready.ready_set import ReadySet, worker_state_arguments
from workers.ready.verdict import Gap, Unknown, Verdict

AGEING_MS = 5_000


def limits(level: Level = Level.TENANT, **caps: int) -> tuple[Limit, ...]:
    """Limits of a tenant or a key by their names."""
    return tuple(Limit(level, name, cap) for name, cap in caps.items())


def room(free: int, *, kept: Mapping[QosClass, int] | None = None, **options: Any) -> Room:
    """Room for ``free`` sequences; ``kept`` of them are not for some class until it has aged."""
    classes = (ClassRoom(one, free - (kept or {}).get(one, 0), free, AGEING_MS) for one in QosClass)
    return Room(tuple(classes), **options)


NOTHING = (0, 0, 0, 0, 0)


async def admit(ready: ReadySet, item: NewItem, used: Mapping[Gap, Sequence[int]] | None = None) -> Verdict:
    """Admit, and fill gaps with ``used``, as a gateway does with what the database says; with nothing by default."""
    while isinstance(verdict := await ready.admit(item), Unknown):
        for gap in verdict.gaps:
            await fill(ready, owner(item, gap), gap, (used or {}).get(gap, NOTHING))
    return verdict


async def fill(ready: ReadySet, owner_id: int, gap: Gap, used: Sequence[int]) -> None:
    """Fill a gap; the store takes it from the ms after the one in which it was seen."""
    while not await ready.seed(owner_id, gap, used):
        await asyncio.sleep(0.001)


def owner(item: NewItem, gap: Gap) -> int:
    """The tenant or key that a gap is about."""
    return item.tenant_id if gap.level is Level.TENANT else item.key_id


def spent(store: SyncRedis, level: Level, owner_id: int, span: Span) -> dict[str, int]:
    """What a tenant or key has spent and holds in the only day or month that there is; empty where nothing is kept."""
    keys: Any = store.keys(f"sl:spent:{level.value}:{owner_id}:{'d' if span is Span.DAY else 'm'}*")
    assert len(keys) <= 1
    found: Any = store.hgetall(keys[0]) if keys else {}
    return {name.decode(): int(value) for name, value in found.items()}


def held(store: SyncRedis) -> dict[str, int]:
    """All that is held anywhere and not zero."""
    keys: Any = store.keys("sl:spent:*")
    found = {
        f"{key.decode()} {name}": int(store.hget(key, name) or 0) for key in keys for name in ("hr", "hi", "ho", "hc")
    }
    return {name: value for name, value in found.items() if value}


def beat(store: SyncRedis, worker_id: str, free: int, first: bool = True, lease_ms: int = 60_000) -> int:
    """One beat of a worker; how many items wait that it may take."""
    script = store.register_script(scripts.source("worker_beat"))
    arguments = worker_state_arguments(worker_id, lease_ms, first, "m", room(free).text(), {"state": "ready"})
    waiting, _ = script(args=arguments)
    return int(waiting)


def kill(store: SyncRedis, key: str) -> None:
    """Let a lease run out now."""
    store.delete(key)


def sweep(store: SyncRedis) -> list[int] | None:
    """One sweep, whoever swept before."""
    store.delete("sl:sweep", "sl:swept", "sl:grace")
    result: list[int] | None = store.register_script(scripts.source("sweep"))(args=[1, 1000])
    return result


async def claim(
    ready: ReadySet, worker_id: str, free: int, *, affinity: Affinity | None = None, **options: Any
) -> Claim:
    """Claim, and expect the worker to be alive."""
    found = await ready.claim(worker_id, "m", "b-1", room(free, **options), affinity)
    assert found is not None
    return found


COMPLETED, ABORTED, FAILED = ("completed", 200, ""), ("cancelled", 499, "client_closed"), ("failed", 502, "")


async def finish(
    ready: ReadySet,
    request_id: str,
    worker_id: str,
    attempt: int = 0,
    used: Usage | None = None,
    free: int = 0,
    how: tuple[str, int, str] = COMPLETED,
) -> bool:
    """End an item from its worker's side, as completed by default."""
    pipeline = ready.redis.pipeline(transaction=False)
    ending = Ending(*how, used or Usage(10, 0, 5), None)
    event = wire.pack([[request_id, attempt, -1, "D", 10, 0, 5, "1.0.0-x"]])
    ready.queue_finish(pipeline, (request_id, worker_id, attempt), ending, "1.0.0-x", event, ("m", room(free).text()))
    return bool((await pipeline.execute())[0])


def settlements(store: SyncRedis) -> list[dict[str, str]]:
    """All settlements so far."""
    entries: Any = store.xrange("sl:settle")
    return [{name.decode(): value.decode() for name, value in fields.items()} for _, fields in entries]


def events(store: SyncRedis, gateway_id: str = "g1") -> list[list[Any]]:
    """All that a gateway was told."""
    entries: Any = store.xrange(f"sl:out:{gateway_id}")
    return [event for _, fields in entries for event in wire.unpack(fields[b"m"])]


def leftovers(store: SyncRedis) -> list[str]:
    """Keys that must be gone once every request has ended."""
    prefixes = (
        "item:",
        "body:",
        "slots:",
        "held:",
        "gwitems:",
        "ready:",
        "deadlines",
        "turn:",
        "line:",
        "bytes:",
        "trial:",
        "flight:",
        "followers:",
    )
    keys: Any = store.keys("sl:*")
    return sorted(key.decode() for key in keys if key.decode().removeprefix("sl:").startswith(prefixes))
