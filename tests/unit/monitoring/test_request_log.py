"""The lines about requests: what stands in them, how much they take, and that nothing else depends on them."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import REGISTRY

from domain.trace.record import Record, Run
from tracing import request_log
from tracing.request_log import FILES, LINES_AT_ONCE, NAME, RequestLog

ROOT = Path(request_log.__file__).resolve().parents[1]
BEGIN_US = 1_796_000_000_000_000
RUN = Run(
    worker_id="worker-1",
    batch_id="b-1",
    batch_items=3,
    attempt=1,
    cause="worker_lost",
    first_us=BEGIN_US + 90_000,
    last_us=BEGIN_US + 190_000,
    preemptions=2,
    kv_usage_permille=250,
)
RECORD = Record(
    request_id="5f0c6c0e-1d2a-4c11-9b7a-000000000001",
    trace_id="5f0c6c0e1d2a11119b7a000000000001",
    span_id="00000000000000aa",
    tenant="acme",
    qos_class="p1",
    model="small",
    endpoint="chat",
    stream=True,
    gateway_id="gateway-1",
    outcome="completed",
    status=200,
    model_version="1.0.0+abc",
    prompt_tokens=10,
    cached_tokens=4,
    completion_tokens=7,
    received_us=BEGIN_US,
    asked_us=BEGIN_US + 1_000,
    heard_us=BEGIN_US + 95_000,
    answered_us=BEGIN_US + 100_500,
    ended_us=BEGIN_US + 200_250,
    runs=(replace(RUN, attempt=0, preemptions=1, cause="", first_us=0, last_us=0), RUN),
)
REFUSED = Record(
    request_id="5f0c6c0e-1d2a-4c11-9b7a-000000000002",
    trace_id=RECORD.trace_id,
    span_id=RECORD.span_id,
    outcome="refused",
    status=401,
    code="key_unknown",
    received_us=BEGIN_US,
    ended_us=BEGIN_US + 2_000,
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def written(data_dir: Path, *records: Record) -> list[dict[str, Any]]:
    log = RequestLog(data_dir, 1)
    log.ended(records)
    return lines(log.path)


def figure(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_a_line_holds_the_colour_the_times_and_the_counts(tmp_path: Path) -> None:
    (line,) = written(tmp_path, RECORD)

    stages = line.pop("stages_ms")
    assert sum(stages.values()) == pytest.approx(200.25)
    assert line == {
        "@timestamp": "2026-11-30T00:53:20.200Z",
        "timestamp": "2026-11-30T00:53:20.200Z",
        "request_id": RECORD.request_id,
        "trace_id": RECORD.trace_id,
        "tenant_id": "acme",
        "tenant_scope": "acme/p1",
        "qos_class": "p1",
        "model": "small",
        "model_version": "1.0.0+abc",
        "endpoint": "chat",
        "stream": True,
        "gateway_id": "gateway-1",
        "outcome": "completed",
        "status_code": 200,
        "is_error": False,
        "errors": 0,
        "latency_ms": 200.25,
        "latency_bucket": "100-500",
        "ttft_ms": 100.5,
        "worker_id": "worker-1",
        "batch_id": "b-1",
        "batch_items": 3,
        "retry_attempt": 1,
        "rollback_cause": "worker_lost",
        "preemptions": 3,
        "kv_cache_usage": 0.25,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 7,
    }


def test_what_is_not_known_of_a_request_is_left_out(tmp_path: Path) -> None:
    (line,) = written(tmp_path, REFUSED)

    assert not {"tenant_id", "tenant_scope", "worker_id", "batch_id", "ttft_ms", "cache"} & line.keys()
    assert (line["outcome"], line["status_code"], line["error_code"]) == ("refused", 401, "key_unknown")
    assert (line["is_error"], line["latency_bucket"]) == (False, "0-100")


@pytest.mark.parametrize(
    ("microseconds", "bucket"),
    [(0, "0-100"), (100_000, "0-100"), (100_001, "100-500"), (500_000, "100-500"), (500_001, ">500")],
)
def test_a_bound_belongs_to_the_bucket_below_it(tmp_path: Path, microseconds: int, bucket: str) -> None:
    (line,) = written(tmp_path, replace(RECORD, ended_us=BEGIN_US + microseconds))

    assert line["latency_bucket"] == bucket


def test_failures_are_told_from_clients_faults_in_lines_and_figures(tmp_path: Path) -> None:
    before = figure("sluice_tenant_requests_total", tenant="broken", latency_ms="100-500", is_error="true")
    failed = replace(RECORD, tenant="broken", status=502, outcome="failed")

    assert [line["errors"] for line in written(tmp_path, failed, replace(failed, status=429))] == [1, 0]
    now = figure("sluice_tenant_requests_total", tenant="broken", latency_ms="100-500", is_error="true")
    assert now == before + 1


def test_lines_of_one_request_stay_one_line_whatever_its_model_is_called(tmp_path: Path) -> None:
    (line,) = written(tmp_path, replace(RECORD, model='a"\n\u2028\udcff'))

    assert line["model"] == 'a"\n\u2028\udcff'


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    written(tmp_path, RECORD)

    assert (tmp_path / "logs").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "logs").iterdir()} == {0o600}


def test_all_files_together_stay_below_their_bound_and_the_newest_lines_stay(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, 1)
    many = [replace(RECORD, request_id=f"{number:036}") for number in range(3_000)]
    for start in range(0, len(many), 50):
        log.ended(many[start : start + 50])

    names = [NAME, *(f"{NAME}.{number}" for number in range(1, FILES))]
    paths = [tmp_path / "logs" / name for name in names]
    assert all(path.exists() for path in paths)
    assert len([path for path in (tmp_path / "logs").iterdir() if not path.name.startswith(".")]) == FILES
    assert sum(path.stat().st_size for path in paths) <= 1024 * 1024
    kept = [line["request_id"] for path in reversed(paths) for line in lines(path)]
    assert kept == [record.request_id for record in many[-len(kept) :]]


def test_more_requests_at_once_than_a_file_holds_do_not_pass_the_bound(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, 1)
    log.ended([RECORD] * 5_000)

    sizes = [path.stat().st_size for path in (tmp_path / "logs").glob(f"{NAME}*")]
    assert sum(sizes) <= 1024 * 1024


def test_none_are_written_if_none_are_wanted_but_they_are_counted(tmp_path: Path) -> None:
    before = figure("sluice_tenant_requests_total", tenant="acme", latency_ms="100-500", is_error="false")
    RequestLog(tmp_path, 0).ended([RECORD])

    assert list(tmp_path.iterdir()) == []
    now = figure("sluice_tenant_requests_total", tenant="acme", latency_ms="100-500", is_error="false")
    assert now == before + 1


def test_a_disk_that_takes_nothing_breaks_nothing_and_is_told(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("no folder")
    before = figure("sluice_request_log_lines_total", result="lost")
    log = RequestLog(tmp_path, 1)
    log.ended([RECORD] * (LINES_AT_ONCE + 1))
    assert figure("sluice_request_log_lines_total", result="lost") == before + LINES_AT_ONCE + 1

    (tmp_path / "logs").unlink()
    log.ended([RECORD])
    assert len(lines(log.path)) == 1


def test_a_disk_that_fills_in_the_middle_of_a_line_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = RequestLog(tmp_path, 1)
    log.ended([RECORD])
    write = os.write

    def full(descriptor: int, text: bytes) -> int:
        if len(text) < 100:
            raise OSError(28, "No space left on device")
        return write(descriptor, text[:-50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        log.ended([REFUSED])
    log.ended([RECORD])

    assert [line["request_id"] for line in lines(log.path)] == [RECORD.request_id, RECORD.request_id]


def test_a_record_that_makes_no_line_breaks_nothing(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, 1)
    log.ended([replace(RECORD, ended_us=2**62)])
    log.ended([RECORD])

    assert len(lines(log.path)) == 1


def test_somebody_who_holds_the_lock_for_ever_does_not_hold_up_requests(tmp_path: Path) -> None:
    before = figure("sluice_request_log_lines_total", result="lost")
    log = RequestLog(tmp_path, 1)
    (tmp_path / "logs").mkdir()
    with request_log._locked(tmp_path / "logs" / f".{NAME}.lock"):
        log.ended([RECORD])

    assert figure("sluice_request_log_lines_total", result="lost") == before + 1


WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from test_request_log import RECORD, RequestLog, replace
log = RequestLog(Path(sys.argv[1]), 64)
for number in range(200):
    log.ended([replace(RECORD, request_id=f"{sys.argv[2]}-{number}")] * 3)
"""


def test_several_processes_write_whole_lines_and_lose_none(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    here = str(Path(__file__).parent)
    writers = [subprocess.Popen([*command, name, here], cwd=ROOT) for name in ("a", "b")]
    assert [writer.wait(60) for writer in writers] == [0, 0]

    ids = [line["request_id"] for line in lines(tmp_path / "logs" / NAME)]
    assert len(ids) == 1_200
    assert len(set(ids)) == 400
