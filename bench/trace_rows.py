"""Fills the table of stored requests with as many as a busy product keeps, by the database's own means."""

import random
import time
from collections.abc import Iterator
from typing import Any

from django.db import connection, transaction

from domain.trace.stages import STAGES
from tracing.models import StoredRequest
from tracing.store.packing import pack_lengths

TENANTS, VERSIONS, WORKERS, BATCH = 200, 3, 8, 4
DAYS_US = 7 * 86_400_000_000
AT_ONCE = 5_000
_STARTING = 64
"""Different lengths of stages; a request has one of them."""


def request_id(number: int) -> str:
    """The id of a row: as random as a real one, but known again."""
    return _uuid(random.Random(number).getrandbits(128))


def _uuid(bits: int) -> str:
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-8{digits[17:20]}-{digits[20:]}"


def fill(rows: int) -> None:
    """Add ``rows`` requests, evenly over the last seven days, and their statistics."""
    fields = [field for field in StoredRequest._meta.concrete_fields if not field.primary_key]
    table = f"{StoredRequest._meta.db_table} ({', '.join(str(field.column) for field in fields)})"
    begin_us = time.time_ns() // 1000 - DAYS_US
    made = (tuple(row[field.name] for field in fields) for row in _rows(rows, begin_us))
    for _ in range(-(-rows // AT_ONCE)):
        part = [values for values, _number in zip(made, range(AT_ONCE), strict=False)]
        with transaction.atomic(), connection.cursor() as cursor:
            if connection.vendor == "postgresql":
                with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                    for values in part:
                        copy.write_row(values)
            else:
                cursor.executemany(f"INSERT INTO {table} VALUES ({', '.join(['%s'] * len(fields))})", part)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _rows(rows: int, begin_us: int) -> Iterator[dict[str, Any]]:
    dice = random.Random(1)
    lengths = [pack_lengths([dice.randrange(50_000) for _ in STAGES]) for _ in range(_STARTING)]
    for number in range(rows):
        own_id = request_id(number)
        failed, slow_us = number % 211 == 0, dice.randrange(20_000, 2_000_000)
        yield {
            "request_id": own_id,
            "trace_id": own_id.replace("-", "")[:12] + f"{number:020x}",
            "started_us": begin_us + DAYS_US * number // rows,
            "recency_us": -(begin_us + DAYS_US * number // rows),
            "duration_us": 2 * slow_us,
            "ttft_us": None if number % 3 == 0 else slow_us,
            "tenant": f"tenant-{min(dice.randrange(TENANTS), dice.randrange(TENANTS))}",
            "qos_class": ("p0", "p1", "p1", "p2")[number % 4],
            "model": "smollm2-135m-instruct",
            "model_version": f"1.0.{number * VERSIONS // rows}-0123456789ab",
            "endpoint": "chat",
            "stream": number % 3 != 0,
            "gateway_id": f"gateway-{number % 2}",
            "worker_id": f"worker-{number % WORKERS}",
            "batch_id": f"b-{number // BATCH:012x}",
            "outcome": "failed" if failed else "completed",
            "status": 502 if failed else 200,
            "code": "engine_failed" if failed else "",
            "cache": "",
            "retry_attempt": 0,
            "rollback_cause": "",
            "prompt_tokens": 100,
            "cached_tokens": 40,
            "completion_tokens": 64,
            "lengths": lengths[number % _STARTING],
            "kept": "",
            "moments": None,
        }
