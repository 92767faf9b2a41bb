"""The live state of engines and queues, read from Valkey for the operators' pages."""

from collections.abc import Iterator
from typing import TypedDict, cast

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from domain.qos import QosClass

_TIMEOUT_S = 1.0
_SCAN_COUNT = 2_000
_MAX_SCANS = 50
_BUSIEST = 50


class WorkerView(TypedDict):
    """One worker; its fields are those of the hash ``sl:worker:<wid>``."""

    id: str
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


class QueueView(TypedDict):
    """One ready set."""

    model: str
    qos_class: str
    waiting: int


class SlotsView(TypedDict):
    """Requests that a tenant has under way."""

    tenant: str
    running: int


class LiveView(TypedDict):
    """All of it."""

    gateways: list[str]
    workers: list[WorkerView]
    queues: list[QueueView]
    slots: list[SlotsView]


def connect_for_page(url: str) -> "Redis":
    """Return a client that gives up fast: a person waits for the page.

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
    gateways, workers, models = _members(redis, "sl:gateways", "sl:workers", "sl:models")
    return {
        "gateways": _living(redis, gateways),
        "workers": _workers(redis, workers),
        "queues": _queues(redis, models),
        "slots": _slots(redis),
    }


def _members(redis: "Redis", *keys: str) -> list[list[str]]:
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.smembers(key)
        return [sorted(cast("set[str]", found)) for found in pipe.execute()]


def _living(redis: "Redis", gateways: list[str]) -> list[str]:
    with redis.pipeline(transaction=False) as pipe:
        for gateway in gateways:
            pipe.exists(f"sl:gateway:{gateway}")
        return [gateway for gateway, alive in zip(gateways, pipe.execute(), strict=True) if alive]


def _workers(redis: "Redis", workers: list[str]) -> list[WorkerView]:
    with redis.pipeline(transaction=False) as pipe:
        for worker in workers:
            pipe.hgetall(f"sl:worker:{worker}")
        found = cast("list[dict[str, str]]", pipe.execute())
    return [_worker(worker, fields) for worker, fields in zip(workers, found, strict=True) if fields]


def _worker(worker: str, fields: dict[str, str]) -> WorkerView:
    def number(name: str) -> int:
        return int(float(fields.get(name) or 0))

    return {
        "id": worker,
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


def _queues(redis: "Redis", models: list[str]) -> list[QueueView]:
    names = [(model, qos_class.value) for model in models for qos_class in QosClass]
    with redis.pipeline(transaction=False) as pipe:
        for model, qos_class in names:
            pipe.zcard(f"sl:ready:{model}:{qos_class}")
        depths = cast("list[int]", pipe.execute())
    return [
        {"model": model, "qos_class": qos_class, "waiting": waiting}
        for (model, qos_class), waiting in zip(names, depths, strict=True)
    ]


def _slots(redis: "Redis") -> list[SlotsView]:
    keys = sorted(set(_scan(redis, "sl:slots:*")))
    with redis.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.scard(key)
        counts = cast("list[int]", pipe.execute())
    slots: list[SlotsView] = [
        {"tenant": key.removeprefix("sl:slots:"), "running": count} for key, count in zip(keys, counts, strict=True)
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
