"""Notices that a tenant's kept data were erased, and has everything that this process keeps forgotten."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from gateway.stale import Keeper
from tenants.salt import salt_mark
from tenants.snapshot import erased_between
from tracing import logs

log = logs.get(__name__)

LOOK_S = 0.25
RETRY_S = 5.0

GONE = "gone"
"""Told in place of a salt's mark when the tenant was deleted."""

Forget = Callable[[int], Awaitable[object]]
Tell = Callable[[int, str], Awaitable[object]]


class Erased:
    """Follows the snapshot of tenants: a changed cache salt, or a tenant that is gone, says that its data were erased.

    So no word of it can be missed: what was changed while the store or this process was away is seen afterwards.
    """

    def __init__(self, keeper: Keeper, again_after_s: float, forget: Sequence[Forget], tell: Tell) -> None:
        """Nothing is followed yet.

        Args:
            keeper: holds the newest snapshot.
            again_after_s: when a request that was under way at the erasure must have ended: what it had kept afterwards
                is forgotten too.
            forget: what forgets a tenant, by its id.
            tell: is told when all of them have, with the mark of the tenant's salt.
        """
        self._keeper, self._again_after_s, self._forget, self._tell = keeper, again_after_s, forget, tell
        self._seen = keeper.current
        self._due: set[tuple[float, int]] = set()

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Forget what was erased since the last look, and what was erased long enough ago once more."""
        older, self._seen = self._seen, self._keeper.current
        now = time.monotonic()
        if self._seen is not older:
            for tenant_id in await asyncio.to_thread(erased_between, older, self._seen):
                self._due |= {(now, tenant_id), (now + self._again_after_s, tenant_id)}
        due = {one for one in self._due if one[0] <= now}
        self._due -= due
        for tenant_id in {tenant_id for _, tenant_id in due}:
            await self._forget_tenant(tenant_id)

    async def _forget_tenant(self, tenant_id: int) -> None:
        tenant = self._seen.tenants.get(tenant_id)
        mark = salt_mark(tenant.cache_salt) if tenant else GONE
        done = [await self._try(forget(tenant_id), tenant_id) for forget in self._forget]
        if all(done):
            done.append(await self._try(self._tell(tenant_id, mark), tenant_id))
        if not all(done):
            self._due.add((time.monotonic() + RETRY_S, tenant_id))

    async def _try(self, step: Awaitable[object], tenant_id: int) -> bool:
        try:
            await step
        except Exception as error:  # the others must still forget, and the loop must live
            log.warning("erasure_incomplete", tenant_id=tenant_id, error=type(error).__name__)
            return False
        return True
