"""Batches and files of tenants over REST: seen, cancelled with a reason, and never what tenants wrote."""

import json
from datetime import timedelta
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.utils import timezone

from gateway_admin.roles import Role
from tenants.bulk.jobs import COUNTS
from tenants.models import BulkJob, BulkSlice, StoredFile, Tenant
from tenants.provision import create_key
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_batch, make_user

REASON = {"reason": "it starves the others"}


@pytest.fixture
def operator(rows: Rows) -> Caller:
    return in_session(make_user("otto", Role.OPERATOR))


@pytest.fixture
def running(rows: Rows) -> BulkJob:
    """One in progress with two slices, one of which is done."""
    job = make_batch(rows.tenant, rows.key, 2, status="in_progress", model="m1", total=60, waiting_for="queue_full")
    for number, (state, done) in enumerate((("done", 50), ("running", 3))):
        BulkSlice.objects.create(
            job=job,
            number=number,
            first_line=50 * number + 1,
            lines=50 if number == 0 else 10,
            offset=0,
            size_bytes=1,
            state=state,
            attempt=1,
            completed=done - 1,
            failed=1,
            prompt_tokens=10 * done,
            held_by="bulk-0",
        )
    return job


def ids(listed: dict[str, Any]) -> list[str]:
    return [row["id"] for row in listed["results"]]


def test_the_newest_come_first_with_counts_of_their_slices(viewer: Caller, rows: Rows, running: BulkJob) -> None:
    listed = viewer.get("batches")

    assert listed["count"] == 2
    assert ids(listed) == [running.public_id, rows.batch.public_id]
    first = listed["results"][0]
    assert {name: first[name] for name in COUNTS} == {
        "completed": 51,
        "failed": 2,
        "prompt_tokens": 530,
        "cached_tokens": 0,
        "completion_tokens": 0,
    }
    assert (first["tenant"], first["key_prefix"], first["waiting_for"]) == ("acme", rows.key.prefix, "queue_full")


def test_batches_are_found_by_tenant_and_status_and_put_in_order(viewer: Caller, rows: Rows, running: BulkJob) -> None:
    other = Tenant.objects.create(slug="other", name="Other", plan=rows.plan)
    key, _ = create_key(other, "k")
    theirs = make_batch(other, key, 3, status="completed", expires_at=timezone.now() + timedelta(hours=1))

    assert ids(viewer.get("batches", tenant="other")) == [theirs.public_id]
    assert ids(viewer.get("batches", status="in_progress")) == [running.public_id]
    assert ids(viewer.get("batches", ordering="expires_at"))[0] == theirs.public_id
    assert ids(viewer.get("batches", page_size="1", page="2")) == [running.public_id]
    assert viewer("GET", "batches", tenant="nobody").status_code == 400
    assert viewer("GET", "batches", status="lost").status_code == 400
    assert viewer("GET", "batches", metadata="x").status_code == 400


def test_one_batch_has_its_slices(viewer: Caller, running: BulkJob) -> None:
    shown = viewer.get(f"batches/{running.public_id}")

    assert [(one["number"], one["first_line"], one["lines"], one["state"]) for one in shown["slices"]] == [
        (0, 1, 50, "done"),
        (1, 51, 10, "running"),
    ]
    assert shown["slices"][1]["held_by"] == "bulk-0"
    assert shown["completed"] == 51
    etag = viewer("GET", f"batches/{running.public_id}")["ETag"]
    assert viewer("GET", f"batches/{running.public_id}", headers={"If-None-Match": etag}).status_code == 304


@pytest.mark.parametrize("path", ["batches/1", "batches/batch_xyz", f"batches/batch_{'0' * 24}"])
def test_no_such_batch_is_404(path: str, viewer: Caller, rows: Rows) -> None:
    assert viewer("GET", path).status_code == 404


def test_nothing_that_the_tenant_wrote_is_shown(viewer: Caller, rows: Rows) -> None:
    wrong = [{"code": "invalid_json_line", "line": 3, "message": "byte 7 of my-custom-id", "param": "custom_id"}]
    job = make_batch(rows.tenant, rows.key, 4, status="failed", errors=wrong)

    for path in (f"batches/{job.public_id}", "batches"):
        text = json.dumps(viewer.get(path))
        assert '"errors": [{"code": "invalid_json_line", "line": 3}]' in text
        assert "secret-project" not in text
        assert "my-custom-id" not in text


def test_an_operator_cancels_a_batch_and_says_why(operator: Caller, viewer: Caller, running: BulkJob) -> None:
    answer = operator("POST", f"batches/{running.public_id}/cancel", REASON)

    assert answer.status_code == 200, answer.content
    shown = answer.json()  # type: ignore[attr-defined]
    assert (shown["status"], shown["waiting_for"], shown["completed"]) == ("cancelling", "", 51)
    assert BulkJob.objects.get(pk=running.pk).cancelling_at is not None
    entry = viewer.get("audit-log", object_type="bulkjob", object_id=str(running.pk))["results"][0]
    assert (entry["by"], entry["object"], entry["action"]) == ("otto", running.public_id, "update")
    assert entry["changes"] == {"status": ["in_progress", "cancelling"], "reason": ["", "it starves the others"]}


def test_cancelling_it_again_changes_nothing(operator: Caller, running: BulkJob) -> None:
    for _ in range(2):
        assert operator("POST", f"batches/{running.public_id}/cancel", REASON).status_code == 200

    assert LogEntry.objects.get_for_object(running).count() == 1


@pytest.mark.parametrize("status", ["completed", "failed", "expired", "cancelled", "finalizing"])
def test_one_that_has_ended_is_not_cancelled(status: str, operator: Caller, rows: Rows) -> None:
    BulkJob.objects.filter(pk=rows.batch.pk).update(status=status)

    answer = operator("POST", f"batches/{rows.batch.public_id}/cancel", REASON)

    assert answer.status_code == 409
    assert status in answer.json()["error"]["message"]  # type: ignore[attr-defined]
    assert not LogEntry.objects.get_for_object(rows.batch).exists()


@pytest.mark.parametrize("body", [{}, {"reason": ""}, {"reason": "x" * 301}, {**REASON, "status": "completed"}])
def test_a_reason_is_needed(body: dict[str, str], operator: Caller, rows: Rows) -> None:
    assert operator("POST", f"batches/{rows.batch.public_id}/cancel", body).status_code == 400
    assert BulkJob.objects.get(pk=rows.batch.pk).status == "validating"


def test_files_are_listed_without_what_they_hold(viewer: Caller, rows: Rows) -> None:
    other = Tenant.objects.create(slug="other", name="Other", plan=rows.plan)
    StoredFile.objects.create(
        tenant=other, public_id=f"file-{'a' * 24}", filename="out.jsonl", purpose="batch_output", size_bytes=7
    )

    listed = viewer.get("files", ordering="-size_bytes")

    assert [(row["tenant"], row["filename"], row["size_bytes"]) for row in listed["results"]] == [
        ("acme", "requests-1.jsonl", 1000),
        ("other", "out.jsonl", 7),
    ]
    assert set(listed["results"][0]) == {
        *("id", "tenant", "filename", "purpose", "size_bytes", "created_at", "expires_at")
    }
    assert ids(viewer.get("files", tenant="acme")) == [rows.batch.input_file_id]
    assert ids(viewer.get("files", purpose="batch_output")) == [f"file-{'a' * 24}"]
    assert viewer("GET", "files", purpose="vision").status_code == 400
    assert viewer("GET", f"files/{rows.batch.input_file_id}").status_code == 404
