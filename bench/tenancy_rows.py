"""Fills a fresh database with as many tenants, keys, prices and rows of usage as a large installation has."""

import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from auditlog.models import LogEntry
from django.contrib.contenttypes.models import ContentType
from django.core.management.color import no_style
from django.db import connection, models, transaction

from domain.outcome import Outcome
from domain.qos import QosClass
from tenants.keys import LEAD, PREFIX_LENGTH, SECRET_LENGTH, key_digest
from tenants.models import ApiKey, Plan, Price, SnapshotRevision, Tenant, UsageRecord, UsageRollup
from tenants.models.choices import SCOPES

PLANS, PRICES, KEYS_OF_A_TENANT, MODELS = 20, 200, 3, 10
_CHUNK = 10_000
_CLASSES = [qos.value for qos in QosClass]
_OUTCOMES = [Outcome.COMPLETED.value] * 9 + [Outcome.CANCELLED.value]


def plaintext(number: int) -> str:
    """The text of the key with this number."""
    return f"{LEAD}{number:0{PREFIX_LENGTH}}-{number:0{SECRET_LENGTH}}"


def fill(tenants: int, sums: int, records: int) -> dict[str, int]:
    """Write everything in one transaction; return the number of rows by table."""
    draw = random.Random(4)
    with transaction.atomic():
        counts = {
            "plans": len(Plan.objects.bulk_create(_plans())),
            "prices": len(Price.objects.bulk_create(_prices())),
            "tenants": _insert(Tenant, _TENANT, _tenants(tenants)),
            "keys": _insert(ApiKey, _KEY, _keys(tenants)),
            "sums": _insert(UsageRollup, _SUM, _sums(draw, tenants, sums)),
            "records": _insert(UsageRecord, _RECORD, _records(draw, tenants, records)),
            "audit log": _insert(LogEntry, _ENTRY, _entries(tenants, tenants)),
        }
        SnapshotRevision.objects.update_or_create(pk=1, defaults={"number": 1})
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")  # as the database does by itself after a while
        if connection.vendor == "postgresql":
            _set_sequences(cursor)
    return counts


def _set_sequences(cursor: Any) -> None:
    models_filled = [Plan, Tenant, ApiKey, UsageRollup, UsageRecord, LogEntry]
    for statement in connection.ops.sequence_reset_sql(no_style(), models_filled):
        cursor.execute(statement)


def _insert(model: type[models.Model], names: Sequence[str], rows: Iterator[tuple[Any, ...]]) -> int:
    """Insert rows of database values; many times as fast as objects."""
    table, columns = model._meta.db_table, ", ".join(names)
    count = 0
    with connection.cursor() as cursor:
        while part := list(islice(rows, _CHUNK)):
            count += len(part)
            if connection.vendor == "postgresql":
                _copy(cursor, f"COPY {table} ({columns}) FROM STDIN", part)
            else:
                values = ", ".join(["%s"] * len(names))
                cursor.executemany(f"INSERT INTO {table} ({columns}) VALUES ({values})", part)
    return count


def _copy(cursor: Any, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _time(moment: datetime) -> Any:
    return connection.ops.adapt_datetimefield_value(moment)


def _plans() -> list[Plan]:
    return [
        Plan(
            id=number,
            name=f"plan {number:02}",
            weight=1 + number % 4,
            max_concurrent=64,
            requests_per_minute=600 * number,
            tokens_per_minute=100_000 * number,
            requests_per_day=50_000 * number,
            tokens_per_month=1_000_000_000 * number,
            tokens_per_month_soft=800_000_000 * number,
            best_class=_CLASSES[number % 3],
            allowed_models=[] if number % 2 else [f"model-{n}" for n in range(5)],
        )
        for number in range(1, PLANS + 1)
    ]


def _prices() -> list[Price]:
    start = datetime.now(UTC) - timedelta(days=200)
    return [
        Price(
            model=f"model-{number % MODELS}",
            qos_class=_CLASSES[number % 3],
            input_per_million=number,
            cached_input_per_million=number / 4,
            output_per_million=3 * number,
            valid_from=start + timedelta(days=number),
        )
        for number in range(PRICES)
    ]


_TENANT = (
    *("id", "revision", "slug", "name", "plan_id", "active", "alert_email", "alert_webhook", "cache_salt"),
    "created_at",
)


def _tenants(count: int) -> Iterator[tuple[Any, ...]]:
    made = _time(datetime.now(UTC) - timedelta(days=100))
    for n in range(1, count + 1):
        mail = f"billing@tenant-{n:06}.example"
        yield n, 1, f"tenant-{n:06}", f"Tenant number {n}", 1 + n % PLANS, n % 50 != 0, mail, "", f"{n:032x}", made


_KEY = (
    *("id", "revision", "tenant_id", "name", "prefix", "digest", "created_at", "expires_at", "revoked_at"),
    *("scopes", "allowed_addresses", "max_concurrent", "requests_per_minute", "tokens_per_month"),
)
_OWN_LIMITS: tuple[Any, ...] = (json.dumps(SCOPES[:1]), json.dumps(["203.0.113.0/24", "2001:db8::/32"]), 4, 60, 10**8)
_NO_LIMITS: tuple[Any, ...] = (json.dumps(SCOPES), "[]", None, None, None)


def _keys(tenants: int) -> Iterator[tuple[Any, ...]]:
    now = datetime.now(UTC)
    made, ends, ended = (_time(now + timedelta(days=days)) for days in (-90, 365, -10))
    for n in range(1, tenants * KEYS_OF_A_TENANT + 1):
        text = plaintext(n)
        owner = 1 + (n - 1) // KEYS_OF_A_TENANT
        own = _NO_LIMITS if n % 10 else _OWN_LIMITS
        dates = made, None if n % 4 else ends, None if n % 20 else ended
        yield n, 1, owner, f"key {n}", text[len(LEAD) :][:PREFIX_LENGTH], key_digest(text).hex(), *dates, *own


_SUM = (
    *("id", "period", "starts_at", "tenant_id", "key_id", "model", "qos_class", "requests", "completed", "failed"),
    *("prompt_tokens", "cached_tokens", "completion_tokens", "cost_nano"),
)


def _sums(draw: random.Random, tenants: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Days and hours back from today, as if every tenant had asked now and then."""
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    for n in range(1, count + 1):
        lap, owner = divmod(n - 1, tenants)
        start = midnight - (timedelta(days=lap // 2) if lap % 2 == 0 else timedelta(hours=lap))
        key = 1 + owner * KEYS_OF_A_TENANT
        asked = draw.randrange(1, 500)
        tokens = asked * 700, asked * 100, asked * 150
        of = f"model-{owner % MODELS}", _CLASSES[owner % 3]
        yield n, "hd"[lap % 2 == 0], _time(start), owner + 1, key, *of, asked, asked, 0, *tokens, asked * 10**6


_RECORD = (
    *("id", "request_id", "tenant_id", "key_id", "model", "model_version", "qos_class", "endpoint", "stream"),
    *("outcome", "status", "error_code", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_nano"),
    *("retry_attempt", "rollback_cause", "batch_id", "worker_id", "gateway_id"),
    *("admitted_at", "claimed_at", "first_token_at", "finished_at"),
)


def _records(draw: random.Random, tenants: int, count: int) -> Iterator[tuple[Any, ...]]:
    """The last month's, in the order in which they ended; a few tenants ask much."""
    now, step = datetime.now(UTC), timedelta(days=30) / max(count, 1)
    for n in range(1, count + 1):
        owner = min(tenants, 1 + int(draw.paretovariate(0.5)))
        at = now - step * (count - n)
        key = 1 + (owner - 1) * KEYS_OF_A_TENANT
        of = f"model-{owner % MODELS}", "1.0.0+0123456789ab", _CLASSES[n % 3], "chat", True
        tokens = draw.randrange(4000), 0, draw.randrange(800), draw.randrange(10**7)
        times = [_time(at - timedelta(milliseconds=ms)) for ms in (900, 890, 700, 0)]
        places = f"batch-{n // 8}", "worker-1", "gateway-1"
        yield n, request_id(n), owner, key, *of, draw.choice(_OUTCOMES), 200, "", *tokens, 0, "", *places, *times


_ENTRY = (
    *("id", "content_type_id", "object_pk", "object_id", "object_repr", "action", "changes", "changes_text"),
    *("timestamp", "additional_data"),
)


def _entries(tenants: int, count: int) -> Iterator[tuple[Any, ...]]:
    """Changes of tenants, one a minute."""
    now, kind = datetime.now(UTC), ContentType.objects.get_for_model(Tenant).pk
    changes, who = json.dumps({"active": ["True", "False"]}), json.dumps({"by": "operator"})
    for n in range(1, count + 1):
        owner = 1 + n % tenants
        at = _time(now - timedelta(minutes=count - n))
        yield n, kind, str(owner), owner, f"tenant-{owner:06}", LogEntry.Action.UPDATE, changes, "", at, who


def request_id(number: int) -> str:
    """The id of the record with this number."""
    return f"{number:08x}-0000-4000-8000-000000000000"
