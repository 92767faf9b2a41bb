"""Usage records as a file, CSV or Parquet, however many there are, in bounded memory."""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import islice
from typing import IO, Any

from django.http import StreamingHttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.exceptions import Throttled
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from domain.money import decimal_text
from gateway_admin.api.csv_text import CsvWriter, Exact
from gateway_admin.api.streaming import Chunks, stream
from gateway_admin.api.usage import Names, UsageFilter, UsageSerializer, UsageViewSet
from gateway_admin.roles import EXPORT_USAGE

_AT_ONCE = 2
_running = threading.BoundedSemaphore(_AT_ONCE)
"""Exports of this process: the data plane shares its cores."""

_RETRY_S = 10
_ROWS_AT_ONCE = 5_000
_FILE_CHUNK_BYTES = 1 << 18
_COST = "cost"
_LOOKED_UP = ("tenant", "key_prefix")
COLUMNS: tuple[str, ...] = UsageSerializer.Meta.fields
"""Those of the records in JSON, in their order."""

_TEXTS = frozenset(
    {
        *("request_id", "tenant", "key_prefix", "model", "model_version", "qos_class", "endpoint", "outcome"),
        *("error_code", "cache", "rollback_cause", "batch_id", "worker_id", "gateway_id"),
    }
)
_TIMES = frozenset({"admitted_at", "claimed_at", "first_token_at", "finished_at"})


class CsvRenderer(BaseRenderer):
    """Names the form for ``Accept`` and ``format``; the view itself writes it."""

    media_type = "text/csv"
    format = "csv"


class ParquetRenderer(BaseRenderer):
    """The same for Parquet."""

    media_type = "application/vnd.apache.parquet"
    format = "parquet"


class UsageExportViewSet(UsageViewSet):
    """Usage records as a file, the earliest first."""

    renderer_classes: Sequence[type[BaseRenderer]] = (CsvRenderer, ParquetRenderer)
    needs = {"export": EXPORT_USAGE}
    parameters = {"export": frozenset(UsageFilter.base_filters)}
    refusals = {"export": (429,)}

    @extend_schema(
        filters=True,
        parameters=[OpenApiParameter("format", str, enum=["csv", "parquet"], default="csv")],
        responses={
            (200, CsvRenderer.media_type): OpenApiTypes.STR,
            (200, ParquetRenderer.media_type): OpenApiTypes.BINARY,
        },
    )
    def export(self, request: Request, *args: Any, **kwargs: Any) -> StreamingHttpResponse:
        """All records that the filters let through; cost is an exact decimal."""
        rows = self.filter_queryset(self.get_queryset()).order_by("finished_at", "id")
        if not _running.acquire(blocking=False):
            raise Throttled(_RETRY_S, f"{_AT_ONCE} exports are running. Try again.")
        try:
            is_parquet = isinstance(request.accepted_renderer, ParquetRenderer)
            parts = _file_parts(_parquet(_batches(rows))) if is_parquet else _csv(_batches(rows))
        except BaseException:
            _running.release()
            raise
        renderer = ParquetRenderer if is_parquet else CsvRenderer
        name = f"usage-{timezone.now():%Y%m%dT%H%M%SZ}.{renderer.format}"
        return stream(request, Chunks(parts, _running.release), renderer.media_type, name)


def _batches(rows: Any) -> Iterator[list[dict[str, Any]]]:
    """The rows in lists of bounded length, with names looked up."""
    columns = ["cost_nano" if name == _COST else name for name in COLUMNS if name not in _LOOKED_UP]
    found = rows.values(*columns).iterator(chunk_size=_ROWS_AT_ONCE)
    while batch := list(islice(found, _ROWS_AT_ONCE)):
        names = Names.of((row["tenant_id"], row["key_id"]) for row in batch)
        for row in batch:
            row["tenant"] = names.tenants.get(row["tenant_id"])
            row["key_prefix"] = names.keys.get(row["key_id"])
        yield batch


def _csv(batches: Iterator[list[dict[str, Any]]]) -> Iterator[bytes]:
    writer = CsvWriter()
    yield writer.write([COLUMNS])
    for batch in batches:
        yield writer.write([_csv_value(name, row) for name in COLUMNS] for row in batch)


def _csv_value(name: str, row: dict[str, Any]) -> Any:
    if name == _COST:
        return Exact(decimal_text(row["cost_nano"]))
    value = row[name]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return str(value).lower() if isinstance(value, bool) else value


def _parquet(batches: Iterator[list[dict[str, Any]]]) -> IO[bytes]:
    """Write a file without a name, one row group a batch."""
    import pyarrow as arrow  # large, and needed for nothing else
    from pyarrow import parquet

    schema = arrow.schema([(name, _arrow_type(arrow, name)) for name in COLUMNS])
    file = tempfile.TemporaryFile()  # noqa: SIM115  # whoever sends it closes it
    try:
        with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
            for batch in batches:
                for row in batch:
                    row[_COST] = Decimal(row.pop("cost_nano")).scaleb(-9)
                writer.write_table(arrow.Table.from_pylist(batch, schema))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _arrow_type(arrow: Any, name: str) -> Any:
    if name == _COST:
        return arrow.decimal128(28, 9)
    if name in _TIMES:
        return arrow.timestamp("us", tz="UTC")
    if name == "stream":
        return arrow.bool_()
    return arrow.string() if name in _TEXTS else arrow.int64()


def _file_parts(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while part := file.read(_FILE_CHUNK_BYTES):
            yield part
