"""The files that come of a job, and the rows that tell how it ended."""

from datetime import timedelta

import jobs_made
import pytest
from django.utils import timezone

from domain.bulk.status import JobStatus, SliceState
from domain.usage import Usage
from gateway.bulk.call import Answered
from gateway.bulk.finish import Finished, finish
from gateway.bulk.part import PartWriter, Result
from gateway.bulk.result_line import answered_line
from tenants.bulk import jobs
from tenants.files.disk import FileDisk
from tenants.models import BulkJob, BulkSlice, StoredFile

pytestmark = pytest.mark.django_db

IDS = [f"r{number}" for number in range(120)]  # three slices


@pytest.fixture
def job(disk: FileDisk) -> BulkJob:
    return jobs_made.begin(jobs_made.make_job(jobs_made.make_tenant(), disk, jobs_made.request_lines(IDS)), disk)


def write(disk: FileDisk, job: BulkJob, numbers: list[int], attempt: int = 1, status: int = 200) -> None:
    """Results of lines, from 1 on, in the slices where they belong."""
    for piece in BulkSlice.objects.filter(job=job):
        writer = PartWriter(disk.make_job_directory(job.public_id), piece.number, attempt)
        for number in numbers:
            if piece.first_line <= number < piece.first_line + piece.lines:
                answered = Answered(status, {}, b'{"attempt":%d}' % attempt)
                line = answered_line(job.public_id, number, IDS[number - 1], answered)
                writer.write(Result(number, status < 400, Usage(2, 1, 3), line))
        writer.close()


def end(disk: FileDisk, job: BulkJob) -> Finished | None:
    held = jobs.hold_to_end(job.public_id, "me")
    assert held is not None
    return finish(*held, disk, jobs_made.MAX_LINE_BYTES, timedelta(days=2))


def all_done(job: BulkJob) -> None:
    BulkSlice.objects.filter(job=job).update(state=SliceState.DONE.value)


def test_answers_and_failures_stand_in_the_order_of_their_requests(disk: FileDisk, job: BulkJob) -> None:
    numbers = list(range(1, 121))
    write(disk, job, [number for number in reversed(numbers) if number % 3], attempt=1)
    write(disk, job, [number for number in reversed(numbers) if not number % 3], attempt=2, status=400)
    all_done(job)
    done = end(disk, job)
    assert done is not None
    answers, failures = (jobs_made.lines_of(disk, one) for one in (done.output_file_id, done.error_file_id))
    assert [line["custom_id"] for line in answers] == [IDS[number - 1] for number in numbers if number % 3]
    assert [line["custom_id"] for line in failures] == [IDS[number - 1] for number in numbers if not number % 3]
    found = BulkJob.objects.get(pk=job.pk)
    assert (found.status, found.completed, found.failed) == (JobStatus.COMPLETED, 80, 40)
    assert (found.prompt_tokens, found.cached_tokens, found.completion_tokens) == (240, 120, 360)
    assert found.completed_at is not None
    assert not BulkSlice.objects.filter(job=job).exists()


def test_files_are_the_tenants_and_live_as_long_as_was_said(disk: FileDisk, job: BulkJob) -> None:
    write(disk, job, [1])
    all_done(job)
    done = end(disk, job)
    assert done is not None
    assert done.error_file_id == ""
    file = StoredFile.objects.get(public_id=done.output_file_id)
    assert (file.tenant_id, file.purpose, file.filename) == (
        job.tenant_id,
        "batch_output",
        f"{job.public_id}_output.jsonl",
    )
    assert file.size_bytes == disk.path(done.output_file_id).stat().st_size
    assert file.expires_at is not None
    assert timedelta(days=1) < file.expires_at - timezone.now() <= timedelta(days=2)


def test_results_are_kept_where_the_tenant_has_no_room_for_more(disk: FileDisk, job: BulkJob) -> None:
    job.tenant.plan.files_mib = 0
    job.tenant.plan.save()
    write(disk, job, [1])
    all_done(job)
    done = end(disk, job)
    assert done is not None
    assert StoredFile.objects.filter(public_id=done.output_file_id).exists()


@pytest.mark.parametrize(
    ("status", "expires_in_s", "code"),
    [(JobStatus.CANCELLING, 3600, "batch_cancelled"), (JobStatus.IN_PROGRESS, -1, "batch_expired")],
)
def test_requests_that_were_not_run_are_told_why(
    disk: FileDisk, job: BulkJob, status: JobStatus, expires_in_s: int, code: str
) -> None:
    write(disk, job, [1, 60])
    expires_at = timezone.now() + timedelta(seconds=expires_in_s)
    BulkJob.objects.filter(pk=job.pk).update(status=status.value, expires_at=expires_at)
    done = end(disk, job)
    assert done is not None
    assert len(jobs_made.lines_of(disk, done.output_file_id)) == 2
    failures = jobs_made.lines_of(disk, done.error_file_id)
    assert [line["custom_id"] for line in failures] == [one for one in IDS if one not in ("r0", "r59")]
    assert {line["error"]["code"] for line in failures} == {code}
    assert done.counts["failed"] == 118


def test_a_job_that_was_cancelled_before_it_began_has_no_files(disk: FileDisk) -> None:
    job = jobs_made.make_job(jobs_made.make_tenant(), disk, jobs_made.request_lines(["a"]))
    jobs.cancel_job(job.public_id)
    done = end(disk, job)
    assert done is not None
    found = BulkJob.objects.get(pk=job.pk)
    assert (found.status, found.output_file_id, found.error_file_id) == (JobStatus.CANCELLED, "", "")


def test_results_are_there_also_when_the_file_of_requests_is_gone(disk: FileDisk, job: BulkJob) -> None:
    write(disk, job, [1])
    disk.remove(job.input_file_id)
    BulkJob.objects.filter(pk=job.pk).update(status=JobStatus.CANCELLING.value)
    done = end(disk, job)
    assert done is not None
    assert len(jobs_made.lines_of(disk, done.output_file_id)) == 1


def test_of_two_that_finish_a_job_one_keeps_its_files(disk: FileDisk, job: BulkJob) -> None:
    write(disk, job, [1])
    all_done(job)
    held = jobs.hold_to_end(job.public_id, "slow")
    assert held is not None
    BulkJob.objects.filter(pk=job.pk).update(held_until=timezone.now() - timedelta(seconds=1))
    first = end(disk, job)
    assert first is not None
    assert finish(*held, disk, jobs_made.MAX_LINE_BYTES, timedelta(days=2)) is None
    assert StoredFile.objects.filter(purpose="batch_output").count() == 1
    assert BulkJob.objects.get(pk=job.pk).output_file_id == first.output_file_id
    assert len(list(disk.file_ids(-1))) == 2  # the requests, and one file of answers


def test_nothing_is_left_under_way(disk: FileDisk, job: BulkJob) -> None:
    write(disk, job, [1])
    all_done(job)
    end(disk, job)
    assert disk.remove_parts(-1) == 0
