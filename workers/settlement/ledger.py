"""The ledger: turns what ended into usage rows, each request exactly once.

It reads the stream ``sl:settle`` as a consumer group; any number of ledgers share the work. An entry leaves the stream
only after its row is in the database; a row that is there already (unique request id) is not written again. So a crash
at any point loses nothing and doubles nothing: what a ledger had read when it died, another one takes over. Quota and
slots were given back by the script that ended the item.
"""

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from django.db import DatabaseError, DataError, IntegrityError, close_old_connections
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from domain.outcome import Outcome
from tenants.usage import UsageRow, record_usage
from tracing import logs, metrics
from workers.ready import scripts
from workers.settlement.entry import usage_row

log = logs.get("settlement")

STREAM, GROUP = "sl:settle", "settlement"
SET_ASIDE = "sl:unsettled"
BATCH = 500
BLOCK_MS = 500
RETRY_S = 0.5
SWEEP_MS = 500

TAKE_OVER_MS = 5_000
"""What a ledger has read and not written for so long another one takes over; if both live, it is still written once."""

FORGET_MS = 60_000
"""A ledger that holds nothing and has not asked for so long is forgotten."""

NANO = 1_000_000_000

_UNSTORABLE = (DataError, IntegrityError, OverflowError)
"""A row has a value that its column does not take; trying again would not help."""

Entry = tuple[bytes, Mapping[bytes, bytes]]


class Ledger:
    """Reads, writes, acknowledges; and sweeps, so that the dead are buried even when no worker lives.

    Args:
        redis: the store of the ready sets.
        consumer: its name among the ledgers, one for each life of each process.
        on_settled: told of the rows of each batch once they are written; it must return at once.
        on_lost: told of those whose gateway died, each with its W3C ``traceparent`` or "": nobody else tells of them.
    """

    def __init__(
        self,
        redis: "Redis",
        consumer: str | None = None,
        on_settled: Callable[[Iterable[UsageRow]], None] = lambda rows: None,
        on_lost: Callable[[Sequence[tuple[UsageRow, str]]], None] = lambda rows: None,
    ) -> None:
        self._redis, self._on_settled, self._on_lost = redis, on_settled, on_lost
        self._consumer = consumer or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"
        self._sweep = redis.register_script(scripts.source("sweep"))
        self._forget = redis.register_script(scripts.source("forget_ledgers"))
        self._stop = threading.Event()

    def stop(self, *_: Any) -> None:
        """End after the batch under way."""
        self._stop.set()

    def run(self) -> None:
        """Settle until stopped; when Redis or the database is away, wait and go on where it was."""
        failed = False
        while not self._stop.is_set():
            try:
                self._ensure_group()
                while failed and self.step(b"0") > 0:
                    pass
                failed = False
                while self.take_over() == BATCH:
                    pass
                self.step(b">")
                self._sweep(args=[SWEEP_MS, 2000])
                self._forget(args=[STREAM, GROUP, FORGET_MS])
            except (RedisError, DatabaseError, OSError) as error:
                log.warning("settlement_retry", error=str(error))
                close_old_connections()
                failed = True
                self._stop.wait(RETRY_S)

    def step(self, start: bytes) -> int:
        """Settle one batch: from ``b">"`` what is new, from ``b"0"`` what this ledger had read and could not write.

        Returns the number of entries settled.
        """
        reply = cast(
            "list[Any] | None",
            self._redis.xreadgroup(GROUP, self._consumer, {STREAM: start}, count=BATCH, block=BLOCK_MS),
        )
        return self._settle([entry for _, found in reply or () for entry in found if entry[1]])

    def take_over(self, idle_ms: int = TAKE_OVER_MS) -> int:
        """Settle one batch of what some ledger, perhaps this one, read ``idle_ms`` ago and did not write.

        Returns the number of entries settled.
        """
        reply: Any = self._redis.xautoclaim(STREAM, GROUP, self._consumer, idle_ms, start_id="0-0", count=BATCH)
        return self._settle(reply[1])

    def _settle(self, entries: list[Entry]) -> int:
        if not entries:
            return 0
        rows = self._readable(entries)
        try:
            new = record_usage(list(rows.values()))
        except _UNSTORABLE:
            new = self._one_by_one(rows)
        with self._redis.pipeline(transaction=True) as pipeline:
            for entry_id, fields in entries:
                if entry_id not in rows:
                    pipeline.xadd(SET_ASIDE, cast("Any", fields))
            ids = [entry_id for entry_id, _ in entries]
            pipeline.xack(STREAM, GROUP, *ids)
            pipeline.xdel(STREAM, *ids)
            pipeline.execute()
        _count(list(rows.values()), new)
        self._on_settled(rows.values())
        self._tell_lost(entries, rows)
        return len(entries)

    def _tell_lost(self, entries: list[Entry], rows: Mapping[bytes, UsageRow]) -> None:
        lost = [
            (rows[entry_id], fields.get(b"trace", b"").decode())
            for entry_id, fields in entries
            if entry_id in rows and rows[entry_id].outcome == Outcome.GATEWAY_LOST
        ]
        if lost:
            self._on_lost(lost)

    def _readable(self, entries: list[Entry]) -> dict[bytes, UsageRow]:
        rows = {}
        for entry_id, fields in entries:
            try:
                rows[entry_id] = usage_row(fields)
            except (KeyError, ValueError) as error:
                _refuse(entry_id, error)
        return rows

    def _one_by_one(self, rows: dict[bytes, UsageRow]) -> set[str]:
        """One row cannot be stored: find it, so that the others are. It leaves ``rows``."""
        new: set[str] = set()
        for entry_id, row in list(rows.items()):
            try:
                new |= record_usage([row])
            except _UNSTORABLE as error:
                _refuse(entry_id, error)
                del rows[entry_id]
        return new

    def _ensure_group(self) -> None:
        try:
            self._redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def _refuse(entry_id: bytes, error: Exception) -> None:
    # Kept aside for a person: it must neither be lost nor hold up all others.
    log.error("settlement_set_aside", entry=entry_id.decode(), error=str(error), stream=SET_ASIDE)
    metrics.set_aside.inc()


def _count(rows: list[UsageRow], new: set[str]) -> None:
    metrics.settled.inc(len(new))
    metrics.settle_doubles.inc(len(rows) - len(new))
    for row in rows:
        if row.request_id in new:
            new.discard(row.request_id)
            metrics.requests.labels(row.model, row.qos_class, row.outcome).inc()
            metrics.cost.labels(row.model, row.qos_class).inc(row.cost_nano / NANO)
