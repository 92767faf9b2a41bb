"""Filters of a tenant's own prompts, made for clients: off the event loop, and once for as long as nothing changes."""

import gzip
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import blake2b

from django.db.models import Count, Max

from caching.filters.replica import STRADDLE_MS
from domain.client_filter import pack
from domain.filter_size import FilterSize
from gateway.database import Database
from tenants.models import StoredPrompt

MAX_KEPT_BYTES = 16 * 1024 * 1024
_FASTEST = 1


@dataclass(frozen=True, slots=True)
class ClientFilter:
    """What a client gets.

    Attributes:
        revision: of the set of prompts and the filter's size; equal ones have equal bits.
        complete_ms: every prompt that was made before is in it, if it exists.
        zipped: the filter in its form, by gzip.
    """

    revision: str
    complete_ms: int
    zipped: bytes


class ClientFilters:
    """Makes them, and keeps those that were asked for last."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: OrderedDict[tuple[int, FilterSize], ClientFilter] = OrderedDict()
        self._kept_bytes = 0

    async def get(self, tenant_id: int, size: FilterSize, now_ms: int) -> ClientFilter:
        """The filter of a tenant's prompts.

        Args:
            tenant_id: whose prompts; nobody else's are in it.
            size: of the filter.
            now_ms: the store's time, read before this is called.

        Raises:
            ApiError: the database does not answer.
        """
        # A row may be written so long after its id was announced.
        complete_ms = now_ms - STRADDLE_MS
        kept = self._kept.get((tenant_id, size))
        made = await self._database.ask(tenant_id, lambda: _make(tenant_id, size, complete_ms, kept))
        self._keep((tenant_id, size), made)
        return made

    async def forget(self, tenant_id: int) -> None:
        """Drop what is kept of a tenant."""
        for key in [key for key in self._kept if key[0] == tenant_id]:
            self._kept_bytes -= len(self._kept.pop(key).zipped)

    def _keep(self, key: tuple[int, FilterSize], made: ClientFilter) -> None:
        before = self._kept.pop(key, None)
        self._kept[key] = made
        self._kept_bytes += len(made.zipped) - (len(before.zipped) if before else 0)
        while self._kept_bytes > MAX_KEPT_BYTES:
            _, dropped = self._kept.popitem(last=False)
            self._kept_bytes -= len(dropped.zipped)


def _make(tenant_id: int, size: FilterSize, complete_ms: int, kept: ClientFilter | None) -> ClientFilter:
    prompts = StoredPrompt.objects.filter(tenant_id=tenant_id)
    # A new prompt has a larger number than all before, and numbers are never used again: so these two tell the set.
    told = prompts.order_by().aggregate(last=Max("pk"), count=Count("pk"))
    text = f"{tenant_id} {told['last']} {told['count']} {size.bits} {size.hashes}"
    revision = blake2b(text.encode(), digest_size=12).hexdigest()
    if kept and kept.revision == revision:
        return ClientFilter(revision, complete_ms, kept.zipped)
    ids = [public_id.encode() for public_id in prompts.order_by().values_list("public_id", flat=True)]
    return ClientFilter(revision, complete_ms, gzip.compress(pack(ids, size, complete_ms), _FASTEST, mtime=0))
