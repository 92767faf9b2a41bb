"""The ledger: turns what ended into usage rows, each request exactly once.

It reads the stream ``sl:settle`` as a consumer group. An entry leaves the stream only
after its row is in the database; a row that is there already (unique request id) is not written again. So a crash at
any point loses nothing and doubles nothing. Quota and slots were given back by the script that ended the item.
"""

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, cast

from django.db import DatabaseError, close_old_connections
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from tenants.usage import UsageRow, record_usage
from tracing import logs, metrics
from workers.ready import scripts

log = logs.get("settlement")

STREAM, GROUP = "sl:settle", "settlement"
BATCH = 500
BLOCK_MS = 500
RETRY_S = 0.5
SWEEP_MS = 500

Entry = tuple[bytes, Mapping[bytes, bytes]]


class Ledger:
    """Reads, writes, acknowledges; and sweeps, so that the dead are buried even when no worker lives."""

    def __init__(self, redis: "Redis", consumer: str = "settlement") -> None:
        self._redis, self._consumer = redis, consumer
        self._sweep = redis.register_script(scripts.source("sweep"))
        self._stop = threading.Event()

    def stop(self, *_: Any) -> None:
        """End after the batch under way."""
        self._stop.set()

    def run(self) -> None:
        """Settle until stopped; when Redis or the database is away, wait and go on where it was."""
        leftovers = True  # what an earlier life had read but not written
        while not self._stop.is_set():
            try:
                self._ensure_group()
                settled = self.step(b"0" if leftovers else b">")
                leftovers = leftovers and settled > 0
                self._sweep(args=[SWEEP_MS, 2000])
            except (RedisError, DatabaseError, OSError) as error:
                log.warning("settlement_retry", error=str(error))
                close_old_connections()
                leftovers = True
                self._stop.wait(RETRY_S)

    def step(self, start: bytes) -> int:
        """Settle one batch: from ``b"0"`` what this consumer had read before, from ``b">"`` what is new.

        Returns the number of entries settled.
        """
        reply = cast(
            "list[Any] | None",
            self._redis.xreadgroup(GROUP, self._consumer, {STREAM: start}, count=BATCH, block=BLOCK_MS),
        )
        entries: list[Entry] = [entry for _, found in reply or () for entry in found if entry[1]]
        if not entries:
            return 0
        inserted = record_usage([usage_row(fields) for _, fields in entries])
        ids = [entry_id for entry_id, _ in entries]
        with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.xack(STREAM, GROUP, *ids)
            pipeline.xdel(STREAM, *ids)
            pipeline.execute()
        self._count(entries, inserted)
        return len(entries)

    def _count(self, entries: list[Entry], inserted: int) -> None:
        metrics.settled.inc(inserted)
        metrics.settle_doubles.inc(len(entries) - inserted)
        for _, fields in entries:
            metrics.requests.labels(
                fields[b"model"].decode(), fields[b"class"].decode(), fields[b"outcome"].decode()
            ).inc()

    def _ensure_group(self) -> None:
        try:
            self._redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def usage_row(fields: Mapping[bytes, bytes]) -> UsageRow:
    """Read one entry of the settlement stream."""

    def text(name: bytes) -> str:
        return fields[name].decode()

    def moment(name: bytes) -> datetime | None:
        return datetime.fromtimestamp(int(fields[name]) / 1000, UTC) if fields[name] else None

    admitted, finished = moment(b"t_admit"), moment(b"t_end")
    assert admitted is not None
    assert finished is not None
    return UsageRow(
        request_id=text(b"rid"),
        tenant_id=int(fields[b"tenant_id"]),
        key_id=int(fields[b"key_id"]),
        model=text(b"model"),
        model_version=text(b"version"),
        qos_class=text(b"class"),
        endpoint=text(b"endpoint"),
        stream=fields[b"stream"] == b"1",
        outcome=text(b"outcome"),
        status=int(fields[b"status"]),
        error_code=text(b"code"),
        prompt_tokens=int(fields[b"prompt"]),
        cached_tokens=int(fields[b"cached"]),
        completion_tokens=int(fields[b"completion"]),
        cost_nano=int(fields.get(b"cost", b"0")),
        price_id=int(fields.get(b"price") or 0) or None,
        retry_attempt=int(fields[b"attempt"]),
        rollback_cause=text(b"cause"),
        batch_id=text(b"batch"),
        worker_id=text(b"worker"),
        gateway_id=text(b"gateway"),
        admitted_at=admitted,
        claimed_at=moment(b"t_claim"),
        first_token_at=moment(b"t_first"),
        finished_at=finished,
    )
