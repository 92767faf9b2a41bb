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
from typing import NamedTuple

from django.db import connections

from domain import price
from domain.limits import Level, Limit
from domain.price import PriceRow
from domain.qos import QosClass
from tenants.keys import key_digest
from tenants.models import LIMIT_FIELDS, ApiKey, Plan, Price, Tenant
from tenants.models.limits import limits_of
from tenants.revision import SnapshotRevision
from tenants.salt import shared_cache_salt

log = logging.getLogger(__name__)

_CHUNK = 5_000
"""Rows fetched at once while loading."""


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


class PlanRow(NamedTuple):
    """A plan as read; names and units as in :class:`~tenants.models.Plan`."""

    name: str
    best_class: QosClass
    weight: float
    limits: tuple[Limit, ...]
    allowed_models: frozenset[str] | None
    shares_cache: bool
    retention_hours: int


class TenantRow(NamedTuple):
    """A tenant as read."""

    slug: str
    plan_id: int
    active: bool
    cache_salt: str


class KeyRow(NamedTuple):
    """A key as read."""

    key_id: int
    tenant_id: int
    prefix: str
    expires_at: datetime | None
    revoked_at: datetime | None
    scopes: frozenset[str]
    allowed_addresses: tuple[str, ...]
    limits: tuple[Limit, ...]


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
        key = self.keys.get(key_digest(api_key))
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
        allowed_models=plan.allowed_models,
        cache_salt=shared_cache_salt() if plan.shares_cache else tenant.cache_salt,
        scopes=key.scopes,
        allowed_addresses=key.allowed_addresses,
        retention_hours=plan.retention_hours,
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
    base = last if reload_all_at <= last.revision <= number else EMPTY
    return Snapshot(
        number,
        {**base.plans, **_read_plans(base.revision)},
        {**base.tenants, **_read_tenants(base.revision)},
        {**base.keys, **_read_keys(base.revision)},
        _read_prices(base),
    )


def _read_plans(since: int) -> dict[int, PlanRow]:
    rows = Plan.objects.filter(revision__gt=since).order_by()
    names = ("id", "name", "best_class", "weight", "allowed_models", "cache_sharing", "retention_hours")
    return {
        plan_id: PlanRow(
            name,
            QosClass(best),
            weight,
            limits_of(Level.TENANT, caps),
            frozenset(models) or None,
            sharing == "shared",
            retention_hours,
        )
        for plan_id, name, best, weight, models, sharing, retention_hours, *caps in rows.values_list(
            *names, *LIMIT_FIELDS
        )
    }


def _read_tenants(since: int) -> dict[int, TenantRow]:
    rows = (
        Tenant.objects.filter(revision__gt=since)
        .order_by()
        .values_list("id", "slug", "plan_id", "active", "cache_salt")
    )
    return {row[0]: TenantRow(*row[1:]) for row in rows.iterator(_CHUNK)}


def _read_keys(since: int) -> dict[bytes, KeyRow]:
    rows = ApiKey.objects.filter(revision__gt=since).order_by()
    names = ("digest", "id", "tenant_id", "prefix", "expires_at", "revoked_at", "scopes", "allowed_addresses")
    return {
        bytes.fromhex(digest): KeyRow(
            key_id,
            tenant_id,
            prefix,
            expires_at,
            revoked_at,
            frozenset(scopes),
            tuple(addresses),
            limits_of(Level.KEY, caps),
        )
        for digest, key_id, tenant_id, prefix, expires_at, revoked_at, scopes, addresses, *caps in rows.values_list(
            *names, *LIMIT_FIELDS
        ).iterator(_CHUNK)
    }


def _read_prices(base: Snapshot) -> dict[str, dict[int, PriceRow]]:
    prices = {model: dict(rows) for model, rows in base.prices.items()}
    for one in Price.objects.filter(revision__gt=base.revision).order_by():
        # A price of a million tokens in thousandths is one of a token in billionths.
        nano = [int(p * 1000) for p in (one.input_per_million, one.cached_input_per_million, one.output_per_million)]
        row = PriceRow(one.pk, one.model_version, one.qos_class, one.valid_from, *nano)
        prices.setdefault(one.model, {})[one.pk] = row
    return prices


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
