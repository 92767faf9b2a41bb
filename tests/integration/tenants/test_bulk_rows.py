"""Rows of bulk jobs and their slices: who gets what when several ask, and what each status allows."""

from datetime import timedelta

import pytest
from django.utils import timezone

from domain.bulk.status import CANCELLABLE, OPEN, JobStatus, SliceState
from tenants.bulk import jobs, slices
from tenants.bulk.jobs import SliceCut
from tenants.files.disk import make_job_id
from tenants.models import ApiKey, BulkJob, BulkSlice, Plan, Tenant
from tenants.provision import create_key
from tests.integration.tenants.bulk_rows import (
    AT_ONCE,
    FUTURE,
    NO_COUNTS,
    PAST,
    add_file,
    all_at_once,
    begun,
    new_job,
    put,
    put_slices,
    status_of,
)


@pytest.fixture
def plan(db: None) -> Plan:
    return Plan.objects.create(name="gold", files_mib=10)


@pytest.fixture
def acme(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=plan)


@pytest.fixture
def other(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="other", name="Other", plan=plan)


@pytest.fixture
def key(acme: Tenant) -> ApiKey:
    return create_key(acme, "k")[0]


# --- slices ---------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_of_several_who_take_a_slice_at_once_one_gets_it(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key, 5)

    for number in range(5):
        took = [lambda owner=owner, n=number: slices.take_slice(job.public_id, n, owner) for owner in "abcd"]
        got = [one for one in all_at_once(took) if one is not None]  # type: ignore[arg-type]
        assert [type(one) for one in got] == [BulkSlice]
        assert BulkSlice.objects.get(job=job, number=number).attempt == 1


def test_a_slice_is_taken_over_only_when_its_lease_has_run_out(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    first = slices.take_slice(job.public_id, 0, "a")
    assert first is not None
    assert first.held_until is not None
    assert slices.LEASE_S - 5 < (first.held_until - timezone.now()).total_seconds() <= slices.LEASE_S
    assert slices.take_slice(job.public_id, 0, "b") is None

    put_slices(job, SliceState.RUNNING, PAST)
    second = slices.take_slice(job.public_id, 0, "b")

    assert second is not None
    assert (second.attempt, second.held_by) == (2, "b")


def test_whoever_lost_a_slice_is_told_so_and_changes_nothing_any_more(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    old = slices.take_slice(job.public_id, 0, "a")
    put_slices(job, SliceState.RUNNING, PAST)
    new = slices.take_slice(job.public_id, 0, "b")
    assert old is not None
    assert new is not None
    counts = {**NO_COUNTS, "completed": 7}

    assert slices.beat(old, counts, "queue_full") is False
    slices.leave_slice(old, counts, is_done=True)

    row = BulkSlice.objects.get(pk=new.pk)
    assert (row.state, row.held_by, row.attempt, row.completed) == ("running", "b", 2, 0)
    assert BulkJob.objects.get(pk=job.pk).waiting_for == ""
    assert slices.beat(new, counts, "queue_full") is True
    assert BulkSlice.objects.get(pk=new.pk).completed == 7
    assert BulkJob.objects.get(pk=job.pk).waiting_for == "queue_full"


def test_a_beat_after_the_lease_keeps_the_slice_if_nobody_took_it(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    piece = slices.take_slice(job.public_id, 0, "a")
    assert piece is not None
    put_slices(job, SliceState.RUNNING, PAST)

    assert slices.beat(piece, NO_COUNTS, "") is True
    assert slices.take_slice(job.public_id, 0, "b") is None


@pytest.mark.parametrize(
    ("status", "expires_in"), [*((status, FUTURE) for status in JobStatus), (JobStatus.IN_PROGRESS, PAST)]
)
def test_slices_run_while_their_job_is_in_progress_and_has_time(
    status: JobStatus, expires_in: timedelta, acme: Tenant, key: ApiKey
) -> None:
    job = begun(acme, key)
    piece = slices.take_slice(job.public_id, 0, "a")
    assert piece is not None
    put(job, status, expires_in)

    runs = status is JobStatus.IN_PROGRESS and expires_in is FUTURE
    assert slices.beat(piece, NO_COUNTS, "no_backend") is runs
    assert (slices.take_slice(job.public_id, 1, "a") is not None) is runs
    # What it waits for is told of a job in progress alone.
    assert BulkJob.objects.get(pk=job.pk).waiting_for == ("no_backend" if status is JobStatus.IN_PROGRESS else "")


def test_a_slice_that_is_left_is_gone_on_with_and_one_that_is_done_is_not(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    for is_done, state in ((False, SliceState.WAITING), (True, SliceState.DONE)):
        piece = slices.take_slice(job.public_id, 0, "a")
        assert piece is not None
        slices.leave_slice(piece, {**NO_COUNTS, "failed": 3}, is_done=is_done)
        row = BulkSlice.objects.get(pk=piece.pk)
        assert (row.state, row.held_by, row.held_until, row.failed) == (state, "", None, 3)

    assert slices.take_slice(job.public_id, 0, "a") is None


def test_a_slice_whose_rows_are_gone_is_lost(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    piece = slices.take_slice(job.public_id, 0, "a")
    assert piece is not None
    BulkJob.objects.all().delete()

    assert slices.beat(piece, NO_COUNTS, "") is False
    slices.leave_slice(piece, NO_COUNTS, is_done=True)
    assert slices.take_slice(job.public_id, 0, "a") is None
    assert not BulkSlice.objects.exists()


def test_lost_slices_are_told_of_once_in_a_while(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key, 3)
    BulkSlice.objects.filter(job=job).update(rung_at=timezone.now() - timedelta(minutes=1))
    taken = slices.take_slice(job.public_id, 0, "a")
    lost = slices.take_slice(job.public_id, 1, "a")
    assert taken is not None
    assert lost is not None
    BulkSlice.objects.filter(pk=lost.pk).update(held_until=timezone.now() + PAST)

    def told(waiting_s: int) -> list[int]:
        now = timezone.now()
        died, waiting = now - timedelta(seconds=10), now - timedelta(seconds=waiting_s)
        found = slices.lost_slices(now, rung_before=died, waiting_since=waiting)
        assert {job_id for job_id, _ in found} <= {job.public_id}
        return sorted(number for _, number in found)

    assert told(600) == [1]
    assert told(10) == [2]
    assert told(10) == []


# --- jobs -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", JobStatus)
@pytest.mark.parametrize("asks", ["the tenant", "an operator"])
def test_a_job_is_cancelled_while_it_is_checked_or_worked_on(
    asks: str, status: JobStatus, acme: Tenant, other: Tenant, key: ApiKey
) -> None:
    job = begun(acme, key)
    put(job, status)
    whose = acme.pk if asks == "the tenant" else None

    assert jobs.cancel_job(job.public_id, other.pk) is None
    assert status_of(job) == status
    if status in CANCELLABLE or status is JobStatus.CANCELLING:
        found = jobs.cancel_job(job.public_id, whose)
        assert found is not None
        assert (found.status, found.waiting_for) == (JobStatus.CANCELLING, "")
    else:
        with pytest.raises(jobs.JobEnded) as ended:
            jobs.cancel_job(job.public_id, whose)
        assert ended.value.status == status
        assert status_of(job) == status


def test_there_is_no_job_to_cancel(acme: Tenant) -> None:
    assert jobs.cancel_job(make_job_id()) is None


# Status, slices' state, whether somebody holds them, whether time is left -> how it ends now, if it does.
RUNNING, WAITING, DONE = SliceState.RUNNING, SliceState.WAITING, SliceState.DONE
ENDS: list[tuple[JobStatus, SliceState, timedelta | None, timedelta, JobStatus | None]] = [
    (JobStatus.VALIDATING, DONE, None, FUTURE, None),
    (JobStatus.VALIDATING, WAITING, None, PAST, None),
    (JobStatus.IN_PROGRESS, WAITING, None, FUTURE, None),
    (JobStatus.IN_PROGRESS, RUNNING, FUTURE, FUTURE, None),
    (JobStatus.IN_PROGRESS, RUNNING, PAST, FUTURE, None),
    (JobStatus.IN_PROGRESS, DONE, None, FUTURE, JobStatus.COMPLETED),
    (JobStatus.IN_PROGRESS, DONE, None, PAST, JobStatus.COMPLETED),
    (JobStatus.IN_PROGRESS, WAITING, None, PAST, JobStatus.EXPIRED),
    (JobStatus.IN_PROGRESS, RUNNING, PAST, PAST, JobStatus.EXPIRED),
    (JobStatus.IN_PROGRESS, RUNNING, FUTURE, PAST, None),
    (JobStatus.FINALIZING, DONE, None, FUTURE, JobStatus.COMPLETED),
    (JobStatus.FINALIZING, WAITING, None, PAST, JobStatus.EXPIRED),
    (JobStatus.CANCELLING, WAITING, None, FUTURE, JobStatus.CANCELLED),
    (JobStatus.CANCELLING, RUNNING, FUTURE, FUTURE, None),
    (JobStatus.CANCELLING, RUNNING, PAST, PAST, JobStatus.CANCELLED),
    (JobStatus.CANCELLING, DONE, None, FUTURE, JobStatus.CANCELLED),
    *((status, DONE, None, FUTURE, None) for status in JobStatus if status not in OPEN),
]


@pytest.mark.parametrize(("status", "state", "held_for", "expires_in", "end"), ENDS)
def test_a_job_is_taken_to_be_ended_when_it_is_to_end(
    status: JobStatus,
    state: SliceState,
    held_for: timedelta | None,
    expires_in: timedelta,
    end: JobStatus | None,
    acme: Tenant,
    key: ApiKey,
) -> None:
    job = begun(acme, key)
    put(job, status, expires_in)
    put_slices(job, state, held_for)
    to_end = [job.public_id] if end else []
    assert jobs.ending(timezone.now()) == to_end

    found = jobs.hold_to_end(job.public_id, "a")

    assert (found[1] if found else None) == end
    if found is None:
        assert status_of(job) == status
        return
    held = found[0]
    assert held.status == (JobStatus.CANCELLING if end is JobStatus.CANCELLED else JobStatus.FINALIZING)
    # It is the holder's alone, and the time at which it ends is not that at which others look.
    assert jobs.hold_to_end(job.public_id, "b") is None
    assert jobs.ending(timezone.now()) == []
    BulkJob.objects.filter(pk=job.pk).update(held_until=timezone.now() + PAST)
    assert jobs.ending(timezone.now()) == to_end
    assert jobs.hold_to_end(job.public_id, "b") is not None


def test_what_came_of_a_job_is_written_once(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    put_slices(job, DONE)
    for owner in "ab":  # the second takes it over, since the first was slow; then both write
        BulkJob.objects.filter(pk=job.pk).update(held_until=None)
        assert jobs.hold_to_end(job.public_id, owner) is not None

    assert jobs.end_job(job, JobStatus.COMPLETED, "file-1", "", {**NO_COUNTS, "completed": 20}) is True
    assert jobs.end_job(job, JobStatus.COMPLETED, "file-2", "file-3", NO_COUNTS) is False

    row = BulkJob.objects.get(pk=job.pk)
    assert (row.status, row.output_file_id, row.error_file_id, row.completed) == ("completed", "file-1", "", 20)
    assert row.completed_at is not None
    assert (row.held_by, row.held_until) == ("", None)
    assert not job.slices.exists()


def test_a_job_that_is_gone_has_no_end(acme: Tenant, key: ApiKey) -> None:
    job = begun(acme, key)
    put(job, JobStatus.FINALIZING)
    acme.delete()
    assert jobs.end_job(job, JobStatus.COMPLETED, "file-1", "", NO_COUNTS) is False


@pytest.mark.django_db(transaction=True)
def test_of_several_who_take_a_job_at_once_one_gets_it(acme: Tenant, key: ApiKey) -> None:
    job = jobs.create_job(new_job(acme, key))
    works = [
        lambda owner=owner: jobs.hold_job(job.public_id, owner, JobStatus.VALIDATING)  # type: ignore[misc]
        for owner in "abcd"
    ]
    assert [type(one) for one in all_at_once(works) if one is not None] == [BulkJob]


def test_a_job_that_was_cancelled_while_it_was_checked_neither_begins_nor_fails(acme: Tenant, key: ApiKey) -> None:
    job = jobs.create_job(new_job(acme, key))
    jobs.cancel_job(job.public_id)
    assert jobs.begin_job(job, "m", 1, [SliceCut(1, 1, 0, 1)]) is False
    assert jobs.refuse_job(job, [{"code": "x", "line": None, "message": "", "param": None}]) is False
    assert not BulkSlice.objects.exists()
    assert status_of(job) == "cancelling"


def test_counts_are_those_of_the_slices_until_the_end_and_then_the_jobs(acme: Tenant, key: ApiKey) -> None:
    job, idle = begun(acme, key), begun(acme, key)
    for number in (0, 1):
        piece = slices.take_slice(job.public_id, number, "a")
        assert piece is not None
        slices.beat(piece, dict(zip(jobs.COUNTS, (6 + number, 1, 100, 40, 20), strict=True)), "")

    def told() -> dict[str, list[int]]:
        listed = jobs.list_jobs(acme.pk, None, 10) or []
        return {one.public_id: [getattr(one, name) for name in jobs.COUNTS] for one in listed}

    assert told() == {job.public_id: [13, 2, 200, 80, 40], idle.public_id: [0, 0, 0, 0, 0]}
    found = jobs.find_job(acme.pk, job.public_id)
    assert found is not None
    assert found.completed == 13

    put(job, JobStatus.CANCELLING)
    assert told()[job.public_id] == [13, 2, 200, 80, 40]
    ended = dict(zip(jobs.COUNTS, (14, 6, 210, 81, 43), strict=True))
    jobs.end_job(job, JobStatus.CANCELLED, "", "", ended)
    assert told()[job.public_id] == list(ended.values())


def test_a_job_needs_a_file_of_its_tenants_requests_that_has_not_expired(
    acme: Tenant, other: Tenant, key: ApiKey
) -> None:
    for file in (
        add_file(other),
        add_file(acme, purpose="batch_output"),
        add_file(acme, expires_at=timezone.now()),
    ):
        with pytest.raises(jobs.NoSuchFile):
            jobs.create_job(new_job(acme, key, file))
    assert jobs.create_job(new_job(acme, key, add_file(acme, expires_at=None))).status == "validating"


@pytest.mark.django_db(transaction=True)
def test_no_more_jobs_are_open_than_may_be_also_if_they_come_at_once(
    acme: Tenant, key: ApiKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_OPEN_JOBS", 2)
    ended = jobs.create_job(new_job(acme, key))
    put(ended, JobStatus.COMPLETED)
    wanted = [new_job(acme, key) for _ in range(AT_ONCE)]
    works = [lambda one=one: jobs.create_job(one) for one in wanted]  # type: ignore[misc]

    came = all_at_once(works)

    assert sorted(type(one).__name__ for one in came) == ["BulkJob"] * 2 + ["TooManyJobs"] * 2
