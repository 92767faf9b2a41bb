"""The queues as they stand, read from Valkey: how deep, how old, how fair, and what serves them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypedDict, cast

from redis import Redis
from redis.client import Pipeline

from domain.qos import QosClass
from gateway_admin.live import WorkerView, read_members, read_workers
from gateway_admin.models import Kind, State
from gateway_admin.switch import Target, read_states

Tokens = Mapping[str, Mapping[str, float]]
"""Weighted tokens, by queue (``<model>:<class>``) and tenant."""

_SHARE_WINDOW_MIN = 5
_TOP_TENANTS = 20
_SCAN_COUNT = 2_000
_MAX_SCANS = 20


class WaitsView(TypedDict):
    """How long the last requests waited until a worker took them."""

    count: int
    p50_ms: float
    p95_ms: float


class WindowView(TypedDict):
    """The last window of some gateway; ``at`` in ms since the epoch."""

    capacity: int
    last_closed_by: str
    wait_ms: float
    closed: int
    at: int


class ShareView(TypedDict):
    """A tenant's part of the tokens of the last five minutes: ``share`` is 0 to 1."""

    tenant: str
    tokens: float
    share: float
    waiting: int


class OthersView(TypedDict):
    """All tenants that have no line of their own."""

    tenants: int
    tokens: float
    share: float
    waiting: int


class QueueView(TypedDict):
    """One queue; what has never been seen is None."""

    model: str
    qos_class: str
    state: str
    waiting: int
    oldest_wait_ms: int | None
    waits: WaitsView | None
    window: WindowView | None
    room: int
    waiting_bytes: int
    shares: list[ShareView]
    others: OthersView


class ModelView(TypedDict):
    """One model; ``on_trial`` counts requests that were on an engine when it died."""

    name: str
    on_trial: int
    queues: list[QueueView]


class QueuesView(TypedDict):
    """All of it; ``states`` holds what is not open, by field of ``sl:switch``."""

    models: list[ModelView]
    workers: list[WorkerView]
    states: dict[str, State]


def read_queues(redis: "Redis") -> QueuesView:
    """Read every queue, and the workers that serve them.

    Raises:
        redis.exceptions.RedisError: Valkey does not answer.
    """
    states = read_states(redis)
    workers = read_workers(redis, states)
    (models,) = read_members(redis, "sl:models")
    seconds, micros = redis.time()
    tokens = _read_tokens(redis, seconds)
    now_ms = seconds * 1000 + micros // 1000
    names = sorted({*models, *(worker["model"] for worker in workers), *_switched_models(states)} - {""})
    return {
        "models": [_model(redis, name, states, tokens, now_ms) for name in names],
        "workers": workers,
        "states": states,
    }


def _switched_models(states: dict[str, State]) -> set[str]:
    queues = (field.removeprefix("queue:") for field in states if field.startswith("queue:"))
    return {queue.rpartition(":")[0] for queue in queues}


def _model(redis: "Redis", name: str, states: dict[str, State], tokens: Tokens, now_ms: int) -> ModelView:
    queues = []
    for qos_class in QosClass:
        state = states.get(Target(Kind.QUEUE, f"{name}:{qos_class}").field, State.OPEN)
        queues.append(_queue(redis, name, qos_class.value, state, now_ms))
    for queue in queues:
        _add_shares(redis, queue, tokens.get(f"{name}:{queue['qos_class']}", {}))
    return {"name": name, "on_trial": redis.zcard(f"sl:trial:{name}"), "queues": queues}


def _queue(redis: "Redis", model: str, qos_class: str, state: State, now_ms: int) -> QueueView:
    name = f"{model}:{qos_class}"
    with redis.pipeline(transaction=False) as pipe:
        _ask(pipe, name)
        depth, oldest, waits, window, room, size = pipe.execute()
    return {
        "model": model,
        "qos_class": qos_class,
        "state": state.value,
        "waiting": depth,
        "oldest_wait_ms": max(0, now_ms - int(oldest[0][1])) if oldest else None,
        "waits": _waits([float(wait) for wait in waits]),
        "window": _window(window),
        "room": sum(max(0, int(float(free))) for free in room),
        "waiting_bytes": max(0, int(size or 0)),
        "shares": [],
        "others": {"tenants": 0, "tokens": 0, "share": 0, "waiting": 0},
    }


def _ask(pipe: "Pipeline", name: str) -> None:
    pipe.zcard(f"sl:ready:{name}")
    pipe.zrange(f"sl:ready:{name}", 0, 0, withscores=True)
    pipe.lrange(f"sl:waits:{name}", 0, -1)
    pipe.hgetall(f"sl:windows:{name}")
    pipe.hvals(f"sl:room:{name}")
    pipe.get(f"sl:bytes:{name}")


def _waits(waits_ms: list[float]) -> WaitsView | None:
    if not waits_ms:
        return None
    waits_ms.sort()
    return {"count": len(waits_ms), "p50_ms": percentile(waits_ms, 0.5), "p95_ms": percentile(waits_ms, 0.95)}


def percentile(ascending: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: the smallest value with at least ``share`` (0 to 1) of all at or below it."""
    return ascending[max(0, math.ceil(share * len(ascending)) - 1)]


def _window(fields: dict[str, str]) -> WindowView | None:
    if not fields:
        return None
    return {
        "capacity": int(float(fields.get("capacity") or 0)),
        "last_closed_by": fields.get("last_closed_by", ""),
        "wait_ms": float(fields.get("wait_ms") or 0),
        "closed": int(float(fields.get("closed") or 0)),
        "at": int(float(fields.get("at") or 0)),
    }


def _read_tokens(redis: "Redis", now_s: int) -> Tokens:
    this_minute, second = divmod(now_s, 60)
    found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for minute in range(this_minute - _SHARE_WINDOW_MIN, this_minute + 1):
        # The minute at the far end counts for the part of it that is less than five minutes ago.
        part = 1 - second / 60 if minute == this_minute - _SHARE_WINDOW_MIN else 1.0
        read = _read_minute if minute == this_minute else read_finished_minute
        for queue, tenants in read(redis, minute).items():
            total = found[queue]
            for tenant, tokens in tenants.items():
                total[tenant] += tokens * part
    return found


@lru_cache(2 * _SHARE_WINDOW_MIN)
def read_finished_minute(redis: "Redis", minute: int) -> Tokens:
    """Read a minute that is over once only: with thousands of tenants that is most of what a page costs."""
    return _read_minute(redis, minute)


def _read_minute(redis: "Redis", minute: int) -> Tokens:
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for field, tokens in _scan(redis, f"sl:tokens:{minute}").items():
        model, qos_class, tenant = field.rsplit("|", 2)
        found[f"{model}:{qos_class}"][tenant] = float(tokens)
    return found


def _scan(redis: "Redis", key: str) -> dict[str, str]:
    # Bounded: with very many tenants the page may miss some, but it never hogs Valkey.
    found: dict[str, str] = {}
    cursor = 0
    for _ in range(_MAX_SCANS):
        cursor, part = cast("tuple[int, dict[str, str]]", redis.hscan(key, cursor, count=_SCAN_COUNT))
        found |= part
        if cursor == 0:
            break
    return found


def _add_shares(redis: "Redis", queue: QueueView, tokens: Mapping[str, float]) -> None:
    name = f"{queue['model']}:{queue['qos_class']}"
    # Who waits is listed also when it got nothing.
    next_in_turn = cast("list[str]", redis.zrange(f"sl:turn:{name}", 0, _TOP_TENANTS - 1))
    ranked = sorted({*tokens, *next_in_turn}, key=lambda tenant: (-tokens.get(tenant, 0), tenant))
    shown = ranked[:_TOP_TENANTS]
    with redis.pipeline(transaction=False) as pipe:
        for tenant in shown:
            pipe.zcard(f"sl:line:{name}:{tenant}")
        waiting = cast("list[int]", pipe.execute())
    # An estimate that was corrected downwards in a later minute can leave less than nothing.
    tokens = {tenant: max(0.0, got) for tenant, got in tokens.items()}
    total = sum(tokens.values())
    queue["shares"] = [
        {"tenant": tenant, "tokens": got, "share": got / total if got else 0.0, "waiting": count}
        for tenant, count in zip(shown, waiting, strict=True)
        for got in [tokens.get(tenant, 0.0)]
    ]
    rest = sum(tokens.get(tenant, 0.0) for tenant in ranked[_TOP_TENANTS:])
    queue["others"] = {
        "tenants": len(ranked) - len(shown),
        "tokens": rest,
        "share": rest / total if rest else 0.0,
        "waiting": max(0, queue["waiting"] - sum(waiting)),
    }
