"""A store filled by hand, with the keys that gateways and workers write."""

from typing import Any

from redis import Redis

MODEL = "org:m1"
WORKER = {
    "model": MODEL,
    "engine": "simulator",
    "version": "1.0.0+abc",
    "state": "ready",
    "reason": "",
    "max_num_seqs": 32,
    "free_seqs": 0,
    "running": 12,
    "classes": "p0,p1,p2",
    "cap": 12,
    "cap_reason": "time per token over its goal",
    "reserve_p0": 4,
    "kv_tokens": 16_000,
    "free_kv_tokens": 4_000,
    "preemptions": 3,
    "step_ms": 21.5,
    "prefix_hit_rate": 0.89,
}


def now_ms(store: "Redis") -> int:
    """The store's clock."""
    seconds, micros = store.time()
    return seconds * 1000 + micros // 1000


def add_worker(store: "Redis", worker_id: str, **fields: Any) -> None:
    """A worker that lives; a field that is None is one that it does not tell."""
    told = {name: value for name, value in {**WORKER, **fields}.items() if value is not None}
    store.sadd("sl:workers", worker_id)
    store.hset(f"sl:worker:{worker_id}", mapping=told)
    store.sadd("sl:models", str(told["model"]))


def add_waiting(
    store: "Redis", qos_class: str, tenants: dict[str, int], oldest_ms: int = 0, model: str = MODEL
) -> None:
    """So many requests of each tenant, the first one waiting for ``oldest_ms``."""
    queue, now = f"{model}:{qos_class}", now_ms(store)
    store.sadd("sl:models", model)
    for tenant, count in tenants.items():
        items = {f"{qos_class}-{tenant}-{number}": now for number in range(count)}
        store.zadd(f"sl:ready:{queue}", {**items, f"{qos_class}-{tenant}-0": now - oldest_ms})
        store.zadd(f"sl:line:{queue}:{tenant}", dict.fromkeys(items, 0))
        store.zadd(f"sl:turn:{queue}", {tenant: 0})


def add_tokens(store: "Redis", qos_class: str, tenants: dict[str, float], minutes_ago: int = 1) -> None:
    """Tokens that tenants got in one minute."""
    minute = store.time()[0] // 60 - minutes_ago
    store.hset(f"sl:tokens:{minute}", mapping={f"{MODEL}|{qos_class}|{name}": got for name, got in tenants.items()})
