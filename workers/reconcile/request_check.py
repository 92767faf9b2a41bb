"""Live requests: each holds its tenant's slot."""

from collections.abc import Collection, Iterator

from redis import Redis

from workers.reconcile.difference import Check
from workers.reconcile.seen import Seen


def look_at_requests(store: Redis, request_ids: Collection[str]) -> Iterator[Seen]:
    """Find those of these requests that still live and have no slot."""
    for request_id in sorted(request_ids):
        tenant = store.hget(f"sl:item:{request_id}", "tenant_id")
        if not isinstance(tenant, bytes):
            continue  # it has ended
        slots = f"t:{tenant.decode()}"
        with store.pipeline(transaction=True) as pipeline:
            pipeline.exists(f"sl:item:{request_id}")
            pipeline.sismember(f"sl:slots:{slots}", request_id)
            lives, has_slot = pipeline.execute()
        if lives and not has_slot:
            yield Seen(Check.SLOTS, slots, "a live request", slots, request_id, 1, 0)


def without_slots(store: Redis, request_ids: Collection[str], tenant_ids: Collection[int]) -> set[str]:
    """Reduce requests to those that seem to have no slot; most of these have ended meanwhile."""
    left = set(request_ids)
    for tenant_id in tenant_ids:
        left -= {member.decode() for member in store.sscan_iter(f"sl:slots:t:{tenant_id}", count=1_000)}
    return left
