"""A line of JSON for each request, for whoever ships logs: its colour, times and counts, never a prompt or a secret.

The lines stand in ``logs/tenant-metrics.jsonl`` of the data directory. A full file becomes ``.1``, that one ``.2``, and
so on; the oldest goes, so that all of them together stay below their bound. Whoever reads them tells repeated lines by
``request_id``: a request that is told twice is written twice.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
from prometheus_client import Counter

from domain.trace.buckets import COARSE, bucket_of
from domain.trace.record import Record
from domain.trace.stages import STAGES, Cut, cut
from tracing import logs, metrics

log = logs.get(__name__)

NAME = "tenant-metrics.jsonl"
FILES = 8
"""The one that is written and those before it share the bound."""

PRIVATE_FILE, PRIVATE_DIRECTORY = 0o600, 0o700
LOCK_WAIT_S, LOCK_RETRY_S = 0.5, 0.01
LINES_AT_ONCE = 64
"""Some 60 KB: little beside the smallest file."""

UNKNOWN_TENANT = "unknown"

tenant_requests = Counter(
    "sluice_tenant_requests_total",
    "Requests that ended, refused ones too, by tenant, how many ms they took, and whether they failed by no fault of "
    "the client (5xx).",
    ["tenant", "latency_ms", "is_error"],
)
lines = Counter("sluice_request_log_lines_total", "Lines about requests: written, lost.", ["result"])
for _result in ("written", "lost"):
    lines.labels(_result)  # a figure that begins at 0 shows its first step, too

_LATENCY_OF_BUCKET = {bucket: coarse.name for coarse in COARSE for bucket in coarse.buckets}


class RequestLog:
    """Writes the lines. Any number of processes may share one directory; nothing here ever raises."""

    def __init__(self, data_dir: Path, max_mib: int) -> None:
        """Write at most ``max_mib`` MiB under ``data_dir``; 0 for no lines at all."""
        self._directory = data_dir / "logs"
        self._max_bytes = max_mib * 1024 * 1024 // FILES
        self._is_failing = False

    @property
    def path(self) -> Path:
        """The file that is written."""
        return self._directory / NAME

    def ended(self, records: Sequence[Record]) -> None:
        """Count requests that have ended, and write a line for each."""
        for start in range(0, len(records), LINES_AT_ONCE):
            some = records[start : start + LINES_AT_ONCE]
            try:
                self._tell([(record, cut(record)) for record in some])
            except Exception as error:  # whatever it is, the requests are stored and the next ones will be
                lines.labels("lost").inc(len(some))
                self._failed(error)

    def _tell(self, ended: Sequence[tuple[Record, Cut]]) -> None:
        for record, way in ended:
            _count(record, way)
        if not self._max_bytes:
            return
        self._append(b"".join(line_of(record, way) for record, way in ended))
        lines.labels("written").inc(len(ended))
        self._is_failing = False

    def _failed(self, error: Exception) -> None:
        if not self._is_failing:  # a full disk needs no second line about it
            log.warning("request_log_failed", error=str(error))
        self._is_failing = True

    def _append(self, text: bytes) -> None:
        # Without its parent: where there is no data directory, there is no instance whose lines anybody would look for.
        self._directory.mkdir(mode=PRIVATE_DIRECTORY, exist_ok=True)
        with _locked(self._directory / f".{NAME}.lock"):
            if self._size() + len(text) > self._max_bytes:
                self._rotate()
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, PRIVATE_FILE)
            try:
                _write(descriptor, text)
            finally:
                os.close(descriptor)

    def _size(self) -> int:
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0

    def _rotate(self) -> None:
        for number in range(FILES - 2, -1, -1):
            newer = self._numbered(number)
            if newer.exists():
                newer.replace(self._numbered(number + 1))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{NAME}.{number}") if number else self.path


def line_of(record: Record, way: Cut) -> bytes:
    """The line of a request, JSON in UTF-8; what is not known of it is left out."""
    known = {name: value for name, value in _fields(record, way) if value not in ("", None)}
    try:
        return orjson.dumps(known, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # a name with half a character in it
        return json.dumps(known, separators=(",", ":")).encode() + b"\n"


def latency_of(way: Cut) -> str:
    """The bucket of the heat map: "0-100", "100-500" or ">500" ms."""
    return _LATENCY_OF_BUCKET[bucket_of(way.duration_us)]


def _fields(record: Record, way: Cut) -> Iterator[tuple[str, Any]]:
    moment = datetime.fromtimestamp(record.ended_us / 1e6, UTC).isoformat(timespec="milliseconds")
    # Shippers take the first name for the event's own time, people look for the second.
    yield "@timestamp", moment.replace("+00:00", "Z")
    yield "timestamp", moment.replace("+00:00", "Z")
    yield from _colour(record)
    yield from _ending(record, way)
    yield from _engine(record)
    yield "prompt_tokens", record.prompt_tokens
    yield "cached_tokens", record.cached_tokens
    yield "completion_tokens", record.completion_tokens
    yield "stages_ms", {stage.value: _ms(us) for stage, us in zip(STAGES, way.lengths_us, strict=True) if us} or None


def _colour(record: Record) -> Iterator[tuple[str, Any]]:
    yield "request_id", record.request_id
    yield "trace_id", record.trace_id
    yield "tenant_id", record.tenant
    yield "tenant_scope", f"{record.tenant}/{record.qos_class}" if record.tenant and record.qos_class else ""
    yield "qos_class", record.qos_class
    yield "model", record.model
    yield "model_version", record.model_version
    yield "endpoint", record.endpoint
    yield "stream", record.stream
    yield "gateway_id", record.gateway_id


def _ending(record: Record, way: Cut) -> Iterator[tuple[str, Any]]:
    yield "outcome", record.outcome
    yield "status_code", record.status
    yield "error_code", record.code
    yield "is_error", record.is_error
    yield "errors", int(record.is_error)
    yield "cache", record.cache
    yield "latency_ms", _ms(way.duration_us)
    yield "latency_bucket", latency_of(way)
    yield "ttft_ms", _ms(way.ttft_us) if way.ttft_us is not None else None


def _engine(record: Record) -> Iterator[tuple[str, Any]]:
    run = record.last_run
    if run is None:
        return
    yield "worker_id", run.worker_id
    yield "batch_id", run.batch_id
    yield "batch_items", run.batch_items
    yield "retry_attempt", run.attempt
    yield "rollback_cause", run.cause
    yield "preemptions", sum(one.preemptions for one in record.runs)
    yield "kv_cache_usage", run.kv_usage_permille / 1000


def _ms(microseconds: int) -> float:
    return microseconds / 1000


def _count(record: Record, way: Cut) -> None:
    tenant = metrics.tenant(record.tenant) if record.tenant else UNKNOWN_TENANT
    tenant_requests.labels(tenant, latency_of(way), str(record.is_error).lower()).inc()


def _write(descriptor: int, text: bytes) -> None:
    """Append all of it, or nothing: a disk that is full must not leave half a line, which spoils the next one too."""
    before = os.fstat(descriptor).st_size
    try:
        while text:
            text = text[os.write(descriptor, text) :]
    except OSError:
        os.ftruncate(descriptor, before)
        raise


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock that all processes share.

    Raises:
        OSError: somebody else held it for too long.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
    try:
        _lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> None:
    end = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(LOCK_RETRY_S)
