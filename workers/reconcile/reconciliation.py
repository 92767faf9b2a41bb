"""The reconciliation: usage rows, what the store has counted, and what endings told must say the same.

It is exact while requests come and go. The store's books are read in one transaction, with its clock and the
settlements that wait for their rows. What had ended by then is either a row that finished earlier or one of these. A
figure is called different only if it is so by the same amount several times in a row. What is repaired is repaired by
adding the difference, so that nothing that happens meanwhile is lost. Usage rows are never changed.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from functools import partial

from redis import Redis

from tenants import reconcile as database
from tenants.models import Tenant
from workers.reconcile.difference import Check, Difference, Report
from workers.reconcile.ending_check import look_at_endings, start_of
from workers.reconcile.lock import Lock
from workers.reconcile.names import find_names
from workers.reconcile.request_check import look_at_requests, without_slots
from workers.reconcile.seen import Mender
from workers.reconcile.store_books import read_books
from workers.reconcile.tenant_check import look_at_tenants

BATCH = 200
"""Tenants that are read at once."""


def reconcile(
    store: Redis,
    since: datetime,
    *,
    repair: bool,
    tenant_ids: Collection[int] | None = None,
    wait_s: float = 0.0,
) -> Report:
    """Compare everything, and put right what differs if so asked.

    Args:
        store: the store of the ready sets.
        since: sums, rows and endings are compared from the day of this moment on; what the store has counted always.
        repair: put right what differs.
        tenant_ids: those to look at; None for all that have used something.
        wait_s: how long to wait for another reconciliation to end.

    Raises:
        workers.reconcile.lock.Busy: another one is under way.
        workers.reconcile.store_books.Behind: too many settlements wait for their rows.
        redis.exceptions.RedisError, OSError, django.db.DatabaseError: the store or the database is away.
    """
    with Lock(store, wait_s) as lock:
        return _Pass(store, since, repair, lock).run(tenant_ids)


class _Pass:
    def __init__(self, store: Redis, since: datetime, repair: bool, lock: Lock) -> None:
        self._store, self._repair, self._lock = store, repair, lock
        self._since = since.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        self._mender = Mender(store)
        self._names = find_names(store)
        self._report = Report()

    def run(self, tenant_ids: Collection[int] | None) -> Report:
        """Look at some tenants, or at everything."""
        chosen = self._names.tenants | database.tenants_with_usage(self._since) if tenant_ids is None else tenant_ids
        ordered = sorted(chosen)
        self._report.tenants = len(ordered)
        if tenant_ids is None:
            self._check_requests()
        for start in range(0, len(ordered), BATCH):
            self._lock.renew()
            self._check_tenants(ordered[start : start + BATCH])
        if tenant_ids is None:
            self._check_the_rest()
        return self._report

    def _check_requests(self) -> None:
        # First, because a tenant's live requests are found by its slots.
        unslotted = without_slots(self._store, self._names.requests, self._names.keys)
        self._report.differences += self._mender.settle(partial(look_at_requests, self._store, unslotted), self._repair)

    def _check_tenants(self, tenant_ids: Sequence[int]) -> None:
        slugs = dict(Tenant.objects.filter(pk__in=tenant_ids).values_list("pk", "slug"))
        self._check_sums(tenant_ids, slugs)
        look = partial(look_at_tenants, self._store, tenant_ids, self._names, slugs)
        self._report.differences += self._mender.settle(look, self._repair)

    def _check_sums(self, tenant_ids: Sequence[int], slugs: dict[int, str]) -> None:
        wrong = database.wrong_sums(tenant_ids, self._since)
        left = {one.group for one in wrong}
        if wrong and self._repair:
            database.mend_sums(wrong)
            left = {one.group for one in database.wrong_sums(tenant_ids, self._since)}
        for group, expected, found in wrong:
            where = f"{'hour' if group.period == 'h' else 'day'} {group.starts_at:%Y-%m-%d %H:%M} {group.model}"
            who = slugs.get(group.tenant_id) or str(group.tenant_id)
            for name, right, told in zip(expected._fields, expected, found, strict=True):
                if right != told:
                    one = Difference(Check.SUMS, who, where, name, right, told, group not in left)
                    self._report.differences.append(one)

    def _check_the_rest(self) -> None:
        self._lock.renew()
        days = [day for day in self._names.days if start_of(day) >= self._since]
        self._report.differences += self._mender.settle(partial(look_at_endings, self._store, days), self._repair)
        unslotted = without_slots(self._store, self._names.requests, self._names.keys)
        self._report.differences += self._mender.settle(partial(look_at_requests, self._store, unslotted), self._repair)
        books = read_books(self._store, {})
        self._report.waiting = len(books.waiting)
        self._report.differences += [
            Difference(Check.SET_ASIDE, str(row.tenant_id), "sl:unsettled", row.request_id, 0, 1)
            for row in books.set_aside
        ]
        if books.unreadable:
            unreadable = Difference(Check.SET_ASIDE, "", "sl:unsettled", "entries", 0, books.unreadable)
            self._report.differences.append(unreadable)
        self._report.notes += [
            f"{one.requests} requests to {one.model} bear no price though price {one.price_id} was in force."
            for one in database.unpriced(self._since)
        ]
