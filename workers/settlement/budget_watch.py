"""Looks whether tenants come to the end of their monthly budgets, and lets them and the operators know."""

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import cast

from django.db import Error, close_old_connections, connections
from redis import Redis
from redis.exceptions import RedisError

from domain.config import Config
from tenants.models import Tenant
from tenants.usage import UsageRow
from tenants.warnings.bounds import warn
from tenants.warnings.telling import tell_due
from tracing import logs, metrics

log = logs.get("budget_watch")

EXHAUSTED = "sl:exhausted:m"
"""And year and month: a set of ``<tenant id>:<code>`` for which a request was refused, see ``admit.lua``."""

Settled = dict[date, set[int]]
"""Months, by their first day, and the tenants whose usage in them was written."""

_KINDS = {"tM": "tokens", "cM": "cost"}
_AT_ONCE = 500
_PAUSE_S = 1.0
_SWEEP_S = 60.0
_LOOK_AT_ALL_S = 3600.0


class BudgetWatch:
    """A thread beside the ledger, which never waits for it.

    It looks at the tenants of each batch when it is written; at all of them when it begins and every hour, which
    finds what a crash left out, and changed plans; and tells what is due every minute.
    """

    def __init__(self, redis: Redis, config: Config) -> None:
        self._redis, self._config = redis, config
        self._settled: Settled = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._is_stopping = False
        self._all_seen_at = float("-inf")
        self._thread = threading.Thread(target=self._run, name="budget-watch", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._wake.set()
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it is not waited for, since what is under way is done again."""
        self._is_stopping = True  # no event: a signal's handler may have interrupted the one below

    def settled(self, rows: Iterable[UsageRow]) -> None:
        """Note whose usage was just written. Returns at once."""
        with self._lock:
            for row in rows:
                month = row.admitted_at.astimezone(UTC).date().replace(day=1)
                self._settled.setdefault(month, set()).add(row.tenant_id)
        self._wake.set()

    def _run(self) -> None:
        while not self._is_stopping:
            self._wake.wait(_SWEEP_S)
            self._wake.clear()
            close_old_connections()
            try:
                self.look(datetime.now(UTC))
            except (RedisError, Error, OSError) as error:
                log.warning("budget_watch_retry", error=str(error))
                connections.close_all()
            except Exception:
                log.exception("budget_watch_failed")  # the thread must live on
            time.sleep(_PAUSE_S)  # what comes meanwhile is looked at together
        connections.close_all()

    def look(self, now: datetime) -> None:
        """Look once, and tell what is due.

        Raises:
            redis.exceptions.RedisError, django.db.Error: a store does not answer; the next look makes up for it.
        """
        with self._lock:
            settled, self._settled = self._settled, {}
        try:
            self._look_at(settled, now)
        except BaseException:
            with self._lock:
                for month, ids in settled.items():
                    self._settled.setdefault(month, set()).update(ids)
            raise
        for channel, error in tell_due(now, self._config):
            metrics.budget_warnings.labels(channel, "failed" if error else "told").inc()
            (log.warning if error else log.info)("budget_warning", channel=channel, error=error)

    def _look_at(self, settled: Settled, now: datetime) -> None:
        month = now.date().replace(day=1)
        if time.monotonic() - self._all_seen_at >= _LOOK_AT_ALL_S:
            for part in _all_tenants():
                warn(part, month, now)
            self._all_seen_at = time.monotonic()
        for of, ids in settled.items():
            for part in _parts(sorted(ids)):
                warn(part, of, now)
        for of in (month, (month - timedelta(days=1)).replace(day=1)):
            self._look_at_refused(of, now)

    def _look_at_refused(self, month: date, now: datetime) -> None:
        key = f"{EXHAUSTED}{month:%Y%m}"
        members = [member.decode() for member in cast("set[bytes]", self._redis.smembers(key))]
        refused = {(int(who), _KINDS[code]) for who, _, code in (member.partition(":") for member in members)}
        for part in _parts(sorted({tenant_id for tenant_id, _ in refused})):
            warn(part, month, now, refused)
        if members:
            self._redis.srem(key, *members)


def _parts(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ids[start : start + _AT_ONCE]


def _all_tenants() -> Iterator[Sequence[int]]:
    last = 0
    ids = Tenant.objects.order_by("pk").values_list("pk", flat=True)
    while part := list(ids.filter(pk__gt=last)[:_AT_ONCE]):
        yield part
        last = part[-1]
