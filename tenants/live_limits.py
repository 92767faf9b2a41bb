"""Live limits: how much of what a plan and a key allow is used now, in one round trip to the store."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import redis
import redis.asyncio

from domain.limit_state import Counted, LimitState, bounds, day_and_month, in_force, states
from domain.limits import KINDS, Amount, Level, Limit, Span
from tenants.spent import adjusted, spent


def read_limits(
    store: redis.Redis, tenant_id: int, limits: Sequence[Limit], key_id: int | None = None
) -> list[LimitState]:
    """How far each of a tenant's limits is used, and of those of one of its keys.

    Args:
        store: where the ready sets are.
        tenant_id: of the tenant whose limits these are.
        limits: of its plan (:func:`tenants.models.limits.limits_of`) and, if ``key_id`` is given, of that key.
        key_id: of the key; limits of the key's level are left out without it.

    Raises:
        redis.exceptions.RedisError, OSError: the store does not answer.
    """
    asked = _Asked.about(tenant_id, limits, key_id)
    return asked.read(asked.queue(store.pipeline(transaction=False)).execute())


async def read_limits_async(
    store: redis.asyncio.Redis, tenant_id: int, limits: Sequence[Limit], key_id: int | None = None
) -> list[LimitState]:
    """The same for an event loop; see :func:`read_limits`."""
    asked = _Asked.about(tenant_id, limits, key_id)
    return asked.read(await asked.queue(store.pipeline(transaction=False)).execute())


def complete_limits(seen: Iterable[LimitState], tenant_id: int, key_id: int | None = None) -> list[LimitState]:
    """Add from the database what was used before the store began anew; it is asked only if a state is not known.

    Raises:
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    owners = {Level.TENANT: tenant_id, Level.KEY: key_id}
    return in_force(
        state if state.known else state.with_used_before(_used_before(state, owners[state.level])) for state in seen
    )


def _used_before(state: LimitState, owner: int | None) -> int:
    assert owner is not None  # a key's limits are read with its id
    kind, now_ms = KINDS[state.name], int(time.time() * 1000)
    start, end = (_moment(ms) for ms in bounds(kind.span, now_ms))
    found = spent(state.level, owner, start, end, _moment(state.since or now_ms))
    used = {
        Amount.REQUESTS: found.requests,
        Amount.INPUT: found.input_tokens,
        Amount.OUTPUT: found.output_tokens,
        Amount.TOKENS: found.input_tokens + found.output_tokens,
        Amount.COST: found.cost_nano,
    }[kind.amount]
    if kind.span is Span.MONTH and state.level is Level.TENANT:
        cost_nano, tokens = adjusted(owner, start.date())
        used += cost_nano if kind.amount is Amount.COST else tokens
    return used


def _moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of the store: the limits, and whose counts they are held against."""

    limits: tuple[Limit, ...]
    owners: dict[Level, int]

    @classmethod
    def about(cls, tenant_id: int, limits: Iterable[Limit], key_id: int | None) -> "_Asked":
        ids = {Level.TENANT: tenant_id} | ({} if key_id is None else {Level.KEY: key_id})
        seen = tuple(limit for limit in limits if limit.level in ids)
        return cls(seen, {level: ids[level] for level in dict.fromkeys(limit.level for limit in seen)})

    def queue(self, pipeline: Any) -> Any:
        """Put the questions on a pipeline."""
        day, month = day_and_month(int(time.time() * 1000))
        pipeline.time()
        pipeline.get("sl:born")
        for level, owner in self.owners.items():
            whose = f"{level.value}:{owner}"
            pipeline.hgetall(f"sl:rate:{whose}")
            pipeline.scard(f"sl:slots:{whose}")
            pipeline.hgetall(f"sl:spent:{whose}:{day}")
            pipeline.hgetall(f"sl:spent:{whose}:{month}")
        return pipeline

    def read(self, replies: list[Any]) -> list[LimitState]:
        """Make the answer of the pipeline's replies."""
        (seconds, microseconds), born, *rest = replies
        counted = {level: Counted(*rest[4 * i : 4 * i + 4]) for i, level in enumerate(self.owners)}
        now_ms = int(seconds) * 1000 + int(microseconds) // 1000
        return states(self.limits, counted, now_ms, None if born is None else int(born))
