"""Requests that have ended, as the scripts put them on the settlement stream."""

import uuid
from typing import Any

from redis import Redis

NOON_MS = 1_893_499_200_000
"""2030-01-01 12:00 UTC."""


def ended(**changes: Any) -> dict[str, Any]:
    """The fields of one entry."""
    fields: dict[str, Any] = {
        "rid": str(uuid.uuid4()),
        "tenant_id": 1,
        "key_id": 1,
        "model": "m",
        "version": "1.0.0+abc",
        "class": "p1",
        "endpoint": "chat",
        "stream": 1,
        "outcome": "completed",
        "status": 200,
        "code": "",
        "prompt": 10,
        "cached": 4,
        "completion": 5,
        "attempt": 0,
        "cause": "",
        "batch": "b-1",
        "worker": "w1",
        "gateway": "g1",
        "t_admit": NOON_MS,
        "t_claim": NOON_MS + 1,
        "t_first": NOON_MS + 2,
        "t_end": NOON_MS + 3,
        "cost": 1_000,
        "price": "",
    }
    return {**fields, **changes}


def tell(store: Redis, count: int = 1, **changes: Any) -> list[str]:
    """Put ``count`` entries on the stream; return their request ids."""
    entries = [ended(**changes) for _ in range(count)]
    with store.pipeline() as pipeline:
        for fields in entries:
            pipeline.xadd("sl:settle", fields)
        pipeline.execute()
    return [str(fields["rid"]) for fields in entries]
