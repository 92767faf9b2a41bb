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

from domain.qos import QosClass
from tenants.keys import key_digest
from tenants.models import ApiKey, Plan, Tenant
from tenants.revision import SnapshotRevision

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
    """Who a request is for, and what its plan allows; None for no limit."""

    tenant_id: int
    tenant: str
    key_id: int
    key_prefix: str
    plan: str
    best_class: QosClass
    weight: float
    requests_per_minute: int | None
    tokens_per_minute: int | None
    max_concurrent: int | None
    allowed_models: frozenset[str] | None
    cache_salt: str


class PlanRow(NamedTuple):
    """A plan as read; names and units as in :class:`~tenants.models.Plan`."""

    name: str
    best_class: QosClass
    weight: float
    requests_per_minute: int | None
    tokens_per_minute: int | None
    max_concurrent: int | None
    allowed_models: frozenset[str] | None


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


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Plans, tenants and keys as they stood at one change; never altered once made."""

    revision: int
    plans: Mapping[int, PlanRow]
    tenants: Mapping[int, TenantRow]
    keys: Mapping[bytes, KeyRow]

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
        requests_per_minute=plan.requests_per_minute,
        tokens_per_minute=plan.tokens_per_minute,
        max_concurrent=plan.max_concurrent,
        allowed_models=plan.allowed_models,
        cache_salt=tenant.cache_salt,
    )


EMPTY = Snapshot(-1, {}, {}, {})
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
    )


def _read_plans(since: int) -> dict[int, PlanRow]:
    rows = (
        Plan.objects.filter(revision__gt=since)
        .order_by()
        .values_list(
            "id",
            "name",
            "best_class",
            "weight",
            "requests_per_minute",
            "tokens_per_minute",
            "max_concurrent",
            "allowed_models",
        )
    )
    return {
        plan_id: PlanRow(name, QosClass(best), weight, requests, tokens, concurrent, frozenset(models) or None)
        for plan_id, name, best, weight, requests, tokens, concurrent, models in rows
    }


def _read_tenants(since: int) -> dict[int, TenantRow]:
    rows = (
        Tenant.objects.filter(revision__gt=since)
        .order_by()
        .values_list("id", "slug", "plan_id", "active", "cache_salt")
    )
    return {row[0]: TenantRow(*row[1:]) for row in rows.iterator(_CHUNK)}


def _read_keys(since: int) -> dict[bytes, KeyRow]:
    rows = (
        ApiKey.objects.filter(revision__gt=since)
        .order_by()
        .values_list("digest", "id", "tenant_id", "prefix", "expires_at", "revoked_at")
    )
    return {bytes.fromhex(row[0]): KeyRow(*row[1:]) for row in rows.iterator(_CHUNK)}


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
