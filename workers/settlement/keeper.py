"""Reconciles now and then, beside the ledger."""

import threading
from datetime import UTC, datetime, timedelta

from django.db import Error, close_old_connections, connections
from redis import Redis
from redis.exceptions import RedisError

from tracing import logs, metrics
from workers.reconcile.difference import Report
from workers.reconcile.lock import Busy
from workers.reconcile.reconciliation import reconcile
from workers.reconcile.store_books import Behind

log = logs.get("reconcile")

SINCE = timedelta(days=1)
"""Sums and endings of yesterday and today are compared; what the store counts is compared for as long as it is kept."""

_TOLD = 20


class Keeper:
    """A thread that compares the books every ``interval_s`` seconds and puts right what differs.

    Of several settlement processes one does it at a time.
    """

    def __init__(self, redis: Redis, interval_s: float) -> None:
        self._redis, self._interval_s = redis, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reconcile", daemon=True)

    def start(self) -> None:
        """Begin; the first comparison comes after one interval."""
        if self._interval_s > 0:
            self._thread.start()

    def stop(self) -> None:
        """Ask it to end; it is not waited for, since it leaves nothing half done."""
        self._stop.set()

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._interval_s):
                self._look()
        finally:
            connections.close_all()

    def _look(self) -> None:
        close_old_connections()
        try:
            tell(reconcile(self._redis, datetime.now(UTC) - SINCE, repair=True))
        except (Busy, Behind) as reason:
            log.info("reconcile_put_off", reason=str(reason))
        except (RedisError, Error, OSError) as error:
            log.warning("reconcile_failed", error=str(error))
            connections.close_all()
        except Exception:
            log.exception("reconcile_failed")  # the thread must live on


def tell(report: Report) -> None:
    """Log what differed, and show how much."""
    metrics.differences.labels("repaired").set(len(report.differences) - len(report.open))
    metrics.differences.labels("open").set(len(report.open))
    for one in report.differences[:_TOLD]:
        log.warning(
            "reconcile_difference",
            check=one.check.value,
            who=one.who,
            where=one.where,
            what=one.what,
            expected=one.expected,
            found=one.found,
            repaired=one.repaired,
        )
    for note in report.notes[:_TOLD]:
        log.info("reconcile_note", note=note)
    log.info("reconciled", tenants=report.tenants, differences=len(report.differences), open=len(report.open))
