"""Who may call, held in memory: a request is authenticated without touching the database.

A keeper looks at the counter of :mod:`tenants.revision` a few times a second and fetches the rows that changed.
When the database does not answer, the last snapshot stays in force: known keys go on, unknown ones stay refused.
"""

import asyncio
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from django.db import connections

from domain import price
from domain.limits import Limit
from domain.price import PriceRow
from domain.qos import QosClass
from tenants.keys import key_digest
from tenants.revision import SnapshotRevision
from tenants.salt import shared_cache_salt
from tenants.snapshot_reading import read_keys, read_plans, read_prices, read_tenants
from tenants.snapshot_rows import COMPUTES_ALL, Caching, KeyRow, PackedTable, PlanRow, TenantRow, TermsPool

__all__ = [
    "EMPTY",
    "Caching",
    "KeyRefused",
    "KeyRow",
    "PlanRow",
    "Principal",
    "Snapshot",
    "SnapshotKeeper",
    "TenantRow",
    "erased_between",
]

log = logging.getLogger(__name__)


class KeyRefused(Exception):
    """The key does not open the door.

    Attributes:
        reason: "unknown", "revoked", "expired" or "disabled" (the tenant is switched off).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"API key refused: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request is for, and what its plan and key allow.

    Attributes:
        limits: all that hold for it, of its tenant and of its key.
        allowed_models: None for every model.
        scopes: what the key may do, of ``tenants.models.choices.SCOPES``.
        allowed_addresses: networks from which the key may be used; empty for every address.
        retention_hours: for how long its answers may be kept; 0 for not at all.
        caching: whether equal requests get kept answers, and at what price. Their keys are made with ``cache_salt``.
        soft_limits: of its tenant's month: from there on it is warned, and nothing is refused.
    """

    tenant_id: int
    tenant: str
    key_id: int
    key_prefix: str
    plan: str
    best_class: QosClass
    weight: float
    limits: tuple[Limit, ...]
    allowed_models: frozenset[str] | None
    cache_salt: str
    scopes: frozenset[str]
    allowed_addresses: tuple[str, ...]
    retention_hours: int
    caching: Caching = COMPUTES_ALL
    soft_limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Plans, tenants, keys and prices as they stood at one change; never altered once made.

    ``prices`` holds the rows of each model by their id.
    """

    revision: int
    plans: Mapping[int, PlanRow]
    tenants: Mapping[int, TenantRow]
    keys: Mapping[bytes, KeyRow]
    prices: Mapping[str, Mapping[int, PriceRow]]

    def prices_in_force(self, model: str, qos_class: QosClass, now: datetime) -> tuple[PriceRow, ...]:
        """What a request to ``model`` that is admitted at ``now`` may cost, see :func:`domain.price.in_force`."""
        return price.in_force(self.prices.get(model, {}).values(), qos_class.value, now)

    def find(self, api_key: str, now: datetime) -> Principal:
        """Return whom ``api_key`` stands for at ``now``.

        Raises:
            KeyRefused: with the reason.
        """
        return self.find_digest(key_digest(api_key), now)

    def find_digest(self, digest: bytes, now: datetime) -> Principal:
        """Return whom the key with this digest stands for at ``now``, for work that goes on without its text.

        Raises:
            KeyRefused: with the reason.
        """
        key = self.keys.get(digest)
        tenant = self.tenants.get(key.tenant_id) if key else None
        plan = self.plans.get(tenant.plan_id) if tenant else None
        if key is None or tenant is None or plan is None:
            raise KeyRefused("unknown")
        if key.revoked_at is not None and key.revoked_at <= now:
            raise KeyRefused("revoked")
        if key.expires_at is not None and key.expires_at <= now:
            raise KeyRefused("expired")
        if not tenant.active:
            raise KeyRefused("disabled")
        return _principal(key, tenant, plan)


def _principal(key: KeyRow, tenant: TenantRow, plan: PlanRow) -> Principal:
    return Principal(
        tenant_id=key.tenant_id,
        tenant=tenant.slug,
        key_id=key.key_id,
        key_prefix=key.prefix,
        plan=plan.name,
        best_class=plan.best_class,
        weight=plan.weight,
        limits=plan.limits + key.limits,
        soft_limits=plan.soft_limits,
        allowed_models=plan.allowed_models,
        cache_salt=shared_cache_salt() if plan.shares_cache else tenant.cache_salt,
        scopes=key.scopes,
        allowed_addresses=key.allowed_addresses,
        retention_hours=plan.retention_hours,
        caching=plan.caching,
    )


EMPTY = Snapshot(-1, {}, {}, {}, {})
"""Knows nobody, so it lets nobody in."""


def load_snapshot(last: Snapshot = EMPTY) -> Snapshot:
    """Read what changed since ``last``; return ``last`` itself when nothing did.

    Raises:
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    # The counter first: rows written after this line are read now, and once more at the next look.
    found = SnapshotRevision.objects.values_list("number", "reload_all_at").first()
    number, reload_all_at = found or (0, 0)
    if number == last.revision:
        return last
    if isinstance(last, _Loaded) and reload_all_at <= last.revision <= number:
        return _follow(last, number)
    pool = TermsPool()
    return _Loaded(
        number,
        read_plans(-1),
        PackedTable(read_tenants(-1), TenantRow.unpack),
        PackedTable(read_keys(-1, pool), pool.unpack),
        _add_prices({}, -1),
        pool,
    )


@dataclass(frozen=True, slots=True)
class _Loaded(Snapshot):
    """One that the next can be made from by reading what changed."""

    tenants: PackedTable[int, TenantRow]
    keys: PackedTable[bytes, KeyRow]
    pool: TermsPool


def _follow(last: _Loaded, number: int) -> _Loaded:
    since = last.revision
    return _Loaded(
        number,
        {**last.plans, **read_plans(since)},
        last.tenants.with_changes(read_tenants(since)),
        last.keys.with_changes(read_keys(since, last.pool)),
        _add_prices(last.prices, since),
        last.pool,
    )


def _add_prices(known: Mapping[str, Mapping[int, PriceRow]], since: int) -> Mapping[str, Mapping[int, PriceRow]]:
    prices = {model: dict(rows) for model, rows in known.items()}
    for model, row in read_prices(since):
        prices.setdefault(model, {})[row.price_id] = row
    return prices


def erased_between(older: Snapshot, newer: Snapshot) -> set[int]:
    """Tenants whose kept data were erased: they are gone, or have another cache salt than before."""
    if not isinstance(older.tenants, PackedTable) or not isinstance(newer.tenants, PackedTable):
        return set()
    return {
        tenant_id
        for tenant_id in newer.tenants.changed_from(older.tenants)
        if tenant_id not in newer.tenants or newer.tenants[tenant_id].cache_salt != older.tenants[tenant_id].cache_salt
    }


class SnapshotKeeper:
    """Keeps :attr:`current` fresh from a thread of its own; the event loop only reads one reference."""

    def __init__(self, poll_ms: int) -> None:
        self.current = EMPTY
        self._poll_s = poll_ms / 1000
        self._stopping = threading.Event()
        self._failing = False
        # One thread for good, since Django's connections belong to threads.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="snapshot")

    async def start(self) -> None:
        """Load the snapshot, then keep looking for changes.

        Raises:
            django.db.DatabaseError, django.db.InterfaceError: the first load failed, so nobody could be let in.
        """
        try:
            self.current = await asyncio.get_running_loop().run_in_executor(self._thread, load_snapshot)
        except BaseException:
            await self.stop()
            raise
        self._thread.submit(self._keep)

    async def stop(self) -> None:
        """Stop looking; returns when the thread and its connection are closed."""
        self._stopping.set()
        await asyncio.get_running_loop().run_in_executor(self._thread, connections.close_all)
        self._thread.shutdown()

    def _keep(self) -> None:
        while not self._stopping.wait(self._poll_s):
            try:
                self.current = load_snapshot(self.current)
            except Exception as error:
                # Whatever it was, the loop must live: a dead one would let revoked keys in for ever.
                self._report(error)
                connections.close_all()
            else:
                self._failing = False

    def _report(self, error: Exception) -> None:
        if not self._failing:  # once an outage, not three times a second
            log.warning("The snapshot of keys and plans is stale: the database does not answer: %s", error)
        self._failing = True
