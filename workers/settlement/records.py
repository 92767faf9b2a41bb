"""Stores what gateways tell of requests, beside the ledger: nothing that is billed depends on it."""

import os
import secrets
import socket
from collections.abc import Sequence
from datetime import datetime
from typing import Any, cast

import msgpack
from django.db import DatabaseError
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from domain.config import Config
from domain.trace.record import Record, Run, flat_record
from domain.trace.spans import REQUEST, span_id
from tenants.models import Tenant
from tenants.usage import UsageRow
from tracing import logs, metrics
from tracing.clock import now_us
from tracing.export import export
from tracing.request_log import RequestLog
from tracing.store.packing import read_message
from tracing.store.pruning import prune
from tracing.store.writing import store
from workers.settlement.side_thread import SideThread

log = logs.get("records")

STREAM, GROUP = "sl:traces", "records"
MESSAGES = 20
BLOCK_MS = 500
TAKE_OVER_MS = 10_000
DAY_US = 86_400_000_000


class RecordKeeper(SideThread):
    """A thread that reads the stream ``sl:traces`` as a consumer group, so that any number of them share the work.

    A message leaves the stream only after its requests are stored; one that comes again is not stored twice.
    """

    def __init__(self, redis: Redis, config: Config) -> None:
        super().__init__("records")
        self._redis, self._keep_us = redis, int(config.trace_days * DAY_US)
        self._log = RequestLog(config.data_dir, config.request_log_mib)
        self._consumer = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(4)}"

    def lost(self, rows: Sequence[tuple[UsageRow, str]]) -> None:
        """Have what is known of requests recorded whose gateway died with their records; others' records stand.

        Args:
            rows: usage rows, each with its ``traceparent`` or "".
        """
        try:
            tenants = {row.tenant_id for row, _ in rows}
            slugs = dict(Tenant.objects.filter(pk__in=tenants).values_list("pk", "slug"))
            records = (record_of(row, trace, slugs.get(row.tenant_id, "")) for row, trace in rows)
            packed = b"".join(msgpack.packb(["failed", flat_record(record)]) for record in records)
            self._redis.xadd(STREAM, {"m": packed})
        except (RedisError, DatabaseError, OSError) as error:
            log.warning("lost_requests_not_recorded", error=str(error), requests=len(rows))

    def resume(self) -> None:
        """Store what others, or this one before it failed, had read and not stored."""
        self._ensure_group()
        while self.take_over() == MESSAGES:
            pass

    def step(self) -> int:
        """Store some messages that are new; returns how many."""
        reply = cast(
            "list[Any] | None",
            self._redis.xreadgroup(GROUP, self._consumer, {STREAM: ">"}, count=MESSAGES, block=BLOCK_MS),
        )
        return self._store([entry for _, found in reply or () for entry in found])

    def take_over(self) -> int:
        """Store some messages that somebody read and did not store; returns how many."""
        reply: Any = self._redis.xautoclaim(STREAM, GROUP, self._consumer, TAKE_OVER_MS, start_id="0-0", count=MESSAGES)
        return self._store(reply[1])

    def _store(self, entries: list[Any]) -> int:
        if not entries:
            return 0
        records: list[tuple[str, Record]] = []
        for _, fields in entries:
            records += read_message((fields or {}).get(b"m", b""))
        metrics.traces_stored.inc(store(records))
        for why, record in records:
            if why:
                export(record)
        self._log.ended([record for _, record in records])
        ids = [entry_id for entry_id, _ in entries]
        with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.xack(STREAM, GROUP, *ids)
            pipeline.xdel(STREAM, *ids)
            pipeline.execute()
        return len(entries)

    def forget(self) -> None:
        """Delete requests that are too old."""
        prune(now_us(), self._keep_us)

    def _ensure_group(self) -> None:
        try:
            self._redis.xgroup_create(STREAM, GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise


def record_of(row: UsageRow, traceparent: str, tenant: str) -> Record:
    """What the settlement knows of a request: no moments of its gateway but that of its admission."""
    admitted_us, ended_us = _us(row.admitted_at), _us(row.finished_at)
    run = Run(
        attempt=row.retry_attempt,
        worker_id=row.worker_id,
        batch_id=row.batch_id,
        model_version=row.model_version,
        cause=row.rollback_cause,
        claimed_us=_us(row.claimed_at),
        first_us=_us(row.first_token_at),
        lost=row.outcome,
    )
    return Record(
        request_id=row.request_id,
        trace_id=traceparent[3:35] or row.request_id.replace("-", "")[:12],
        span_id=traceparent[36:52] or span_id(row.request_id, REQUEST),
        qos_class=row.qos_class,
        tenant=tenant,
        model=row.model,
        endpoint=row.endpoint,
        stream=row.stream,
        gateway_id=row.gateway_id,
        outcome=row.outcome,
        status=row.status,
        code=row.error_code,
        cache=row.cache,
        model_version=row.model_version,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.completion_tokens,
        received_us=admitted_us,
        admitted_us=admitted_us,
        ended_us=ended_us,
        runs=(run,) if row.worker_id else (),
    )


def _us(moment: datetime | None) -> int:
    return int(moment.timestamp() * 1_000_000) if moment else 0
