"""The live state of gateways, workers and tenants' slots, read from Valkey for the operators' pages."""

from collections.abc import Iterator
from functools import lru_cache
from typing import TypedDict, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from domain.limits import Level
from domain.qos import QosClass
from gateway_admin.models import Kind, State
from gateway_admin.switch import Target, read_states

_TIMEOUT_S = 1.0
_SCAN_COUNT = 2_000
_MAX_SCANS = 50
_BUSIEST = 50
_TENANTS_SLOTS = f"sl:slots:{Level.TENANT}:"
_ALL_CLASSES = ",".join(QosClass)


class WorkerFigures(TypedDict):
    """What only some workers tell, and only once they serve; None is unknown, which is not the same as none.

    Attributes:
        cap: sequences that it takes now, never above ``max_num_seqs``; ``cap_reason`` says why it is lower.
        reserve_p0: sequences kept free for P0.
        step_ms: one step of the engine.
        prefix_hit_rate: prompt tokens found in the KV cache, 0 to 1, last five minutes.
        padding_waste: part of the computed tokens that is padding, 0 to 1; engines that pad only.
    """

    cap: int | None
    cap_reason: str
    reserve_p0: int | None
    kv_tokens: int | None
    free_kv_tokens: int | None
    preemptions: int | None
    step_ms: float | None
    prefix_hit_rate: float | None
    padding_waste: float | None


class WorkerView(WorkerFigures):
    """One worker; its fields are those of the hash ``sl:worker:<wid>``, and how operators switched it."""

    id: str
    switch: str
    classes: list[str]
    model: str
    engine: str
    version: str
    dtype: str
    state: str
    reason: str
    host: str
    pid: int
    started_at: int
    max_model_len: int
    max_num_seqs: int
    free_seqs: int
    running: int
    kv_blocks: int
    free_kv_blocks: int | None


class SlotsView(TypedDict):
    """Requests that a tenant has under way; ``tenant`` is its number in the database."""

    tenant: int
    running: int


class LiveView(TypedDict):
    """All of it."""

    gateways: list[str]
    workers: list[WorkerView]
    waiting: int
    slots: list[SlotsView]


@lru_cache(4)
def connect_for_page(url: str) -> "Redis":
    """Return the client that pages share; it gives up fast, since a person waits for the page.

    Args:
        url: of the database of the ready sets.
    """
    return Redis.from_url(
        url,
        decode_responses=True,
        socket_timeout=_TIMEOUT_S,
        socket_connect_timeout=_TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),
    )


def read_live(redis: "Redis") -> LiveView:
    """Read the live state; what is dead has expired and is left out.

    Raises:
        redis.exceptions.RedisError: Valkey does not answer.
    """
    gateways, models = read_members(redis, "sl:gateways", "sl:models")
    return {
        "gateways": _living(redis, gateways),
        "workers": read_workers(redis, read_states(redis)),
        "waiting": _waiting(redis, models),
        "slots": _slots(redis),
    }


def read_members(redis: "Redis", *keys: str) -> list[list[str]]:
    """Read some sets, each sorted."""
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.smembers(key)
        return [sorted(cast("set[str]", found)) for found in pipe.execute()]


def read_workers(redis: "Redis", states: dict[str, State]) -> list[WorkerView]:
    """Read the workers that live; ``states`` is what :func:`gateway_admin.switch.read_states` found."""
    (workers,) = read_members(redis, "sl:workers")
    with redis.pipeline(transaction=False) as pipe:
        for worker in workers:
            pipe.hgetall(f"sl:worker:{worker}")
        found = cast("list[dict[str, str]]", pipe.execute())
    return [
        _worker(worker, fields, states.get(Target(Kind.WORKER, worker).field, State.OPEN))
        for worker, fields in zip(workers, found, strict=True)
        if fields
    ]


def _living(redis: "Redis", gateways: list[str]) -> list[str]:
    with redis.pipeline(transaction=False) as pipe:
        for gateway in gateways:
            pipe.exists(f"sl:gateway:{gateway}")
        return [gateway for gateway, alive in zip(gateways, pipe.execute(), strict=True) if alive]


def _worker(worker: str, fields: dict[str, str], switch: State) -> WorkerView:
    def number(name: str) -> int:
        return int(float(fields.get(name) or 0))

    return {
        **_figures(fields),
        "id": worker,
        "switch": switch.value,
        "classes": fields["classes"].split(",")
        if fields.get("classes")
        else [qos_class.value for qos_class in QosClass],
        "model": fields.get("model", ""),
        "engine": fields.get("engine", ""),
        "version": fields.get("version", ""),
        "dtype": fields.get("dtype", ""),
        "state": fields.get("state", ""),
        "reason": fields.get("reason", ""),
        "host": fields.get("host", ""),
        "pid": number("pid"),
        "started_at": number("started_at"),
        "max_model_len": number("max_model_len"),
        "max_num_seqs": number("max_num_seqs"),
        "free_seqs": number("free_seqs"),
        "running": number("running"),
        "kv_blocks": number("kv_blocks"),
        "free_kv_blocks": number("free_kv_blocks") if "free_kv_blocks" in fields else None,
    }


def _figures(fields: dict[str, str]) -> WorkerFigures:
    def number(name: str) -> float | None:
        return float(fields[name]) if fields.get(name) else None

    def whole(name: str) -> int | None:
        return int(float(fields[name])) if fields.get(name) else None

    return {
        "cap": whole("cap"),
        "cap_reason": fields.get("cap_reason", ""),
        "reserve_p0": whole("reserve_p0"),
        "kv_tokens": whole("kv_tokens"),
        "free_kv_tokens": whole("free_kv_tokens"),
        "preemptions": whole("preemptions"),
        "step_ms": number("step_ms"),
        "prefix_hit_rate": number("prefix_hit_rate"),
        "padding_waste": number("padding_waste"),
    }


def _waiting(redis: "Redis", models: list[str]) -> int:
    with redis.pipeline(transaction=False) as pipe:
        for model in models:
            for qos_class in QosClass:
                pipe.zcard(f"sl:ready:{model}:{qos_class}")
        return sum(cast("list[int]", pipe.execute()))


def _slots(redis: "Redis") -> list[SlotsView]:
    keys = sorted({key for key in _scan(redis, f"{_TENANTS_SLOTS}*") if key.removeprefix(_TENANTS_SLOTS).isdigit()})
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.scard(key)
        counts = cast("list[int]", pipe.execute())
    slots: list[SlotsView] = [
        {"tenant": int(key.removeprefix(_TENANTS_SLOTS)), "running": count}
        for key, count in zip(keys, counts, strict=True)
    ]
    return sorted(slots, key=lambda slot: (-slot["running"], slot["tenant"]))[:_BUSIEST]


def _scan(redis: "Redis", pattern: str) -> Iterator[str]:
    # Bounded: with very many items waiting a page may miss a tenant, but it never hogs Valkey.
    cursor = 0
    for _ in range(_MAX_SCANS):
        cursor, keys = cast("tuple[int, list[str]]", redis.scan(cursor, match=pattern, count=_SCAN_COUNT, _type="set"))
        yield from keys
        if cursor == 0:
            return
