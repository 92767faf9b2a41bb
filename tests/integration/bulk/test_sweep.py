"""What nobody works on is found and rung for; what is over is removed."""

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path

import jobs_made
import pytest
from django.utils import timezone

from domain.bulk.status import JobStatus, SliceState
from gateway.bulk import sweep
from gateway.bulk.rows import Rows
from gateway.bulk.sweep import Sweep, clean
from tenants.bulk import jobs
from tenants.bulk.slices import take_slice
from tenants.files.disk import FileDisk
from tenants.models import BulkJob, BulkSlice, StoredFile
from workers import bulk

Rung = list[tuple[object, ...]]
LONG_AGO = timedelta(hours=1)


@pytest.fixture
def rung(monkeypatch: pytest.MonkeyPatch) -> Rung:
    """What was rung for, instead of a broker."""
    found: Rung = []
    monkeypatch.setattr(bulk, "ring_check", lambda job_id: found.append(("check", job_id)))
    monkeypatch.setattr(bulk, "ring_slice", lambda job_id, number: found.append(("slice", job_id, number)))
    monkeypatch.setattr(bulk, "ring_finish", lambda job_id: found.append(("finish", job_id)))
    return found


@pytest.fixture
def job(disk: FileDisk) -> BulkJob:
    ids = [f"r{number}" for number in range(100)]  # two slices
    return jobs_made.make_job(jobs_made.make_tenant(), disk, jobs_made.request_lines(ids))


def age(job: BulkJob, by: timedelta = LONG_AGO) -> None:
    """Let everything about a job have happened some time ago."""
    then = timezone.now() - by
    BulkJob.objects.filter(pk=job.pk).update(created_at=then)
    BulkSlice.objects.filter(job=job).update(rung_at=then)
    BulkSlice.objects.filter(job=job, held_until__isnull=False).update(held_until=then)


def look(disk: FileDisk, *, queued: int = 0) -> None:
    """One look of a bulk process, while so many messages wait."""

    async def count() -> int:
        return queued

    async def go() -> None:
        rows = Rows("test")
        await Sweep(rows, disk, count).look()
        rows.close()

    asyncio.run(go())


@pytest.mark.django_db(transaction=True)
class TestRinging:
    def test_a_job_whose_message_was_lost_is_checked_all_the_same(
        self, rung: Rung, disk: FileDisk, job: BulkJob
    ) -> None:
        look(disk)
        assert rung == []  # its message may still be on the way
        age(job)
        look(disk)
        assert rung == [("check", job.public_id)]

    def test_a_job_that_somebody_checks_is_left_to_him(self, rung: Rung, disk: FileDisk, job: BulkJob) -> None:
        age(job)
        assert jobs.hold_job(job.public_id, "him", JobStatus.VALIDATING)
        look(disk)
        assert rung == []

    def test_slices_that_wait_are_rung_for_again_when_no_message_is_left(
        self, rung: Rung, disk: FileDisk, job: BulkJob
    ) -> None:
        jobs_made.begin(job, disk)
        look(disk)
        assert rung == []
        age(job, timedelta(minutes=1))
        look(disk, queued=1)
        assert rung == []  # its message may be the one that waits
        look(disk)
        assert sorted(rung) == [("slice", job.public_id, 0), ("slice", job.public_id, 1)]
        look(disk)
        assert len(rung) == 2  # not at every look

    def test_a_message_that_was_lost_while_others_wait_is_missed_in_the_end(
        self, rung: Rung, disk: FileDisk, job: BulkJob
    ) -> None:
        jobs_made.begin(job, disk)
        age(job)
        look(disk, queued=1)
        assert sorted(rung) == [("slice", job.public_id, 0), ("slice", job.public_id, 1)]

    def test_a_slice_of_a_process_that_died_is_rung_for_once_its_lease_has_run_out(
        self, rung: Rung, disk: FileDisk, job: BulkJob
    ) -> None:
        jobs_made.begin(job, disk)
        assert take_slice(job.public_id, 1, "dies")
        BulkSlice.objects.filter(job=job, number=1).update(rung_at=timezone.now() - LONG_AGO)
        look(disk, queued=1)
        assert rung == []
        BulkSlice.objects.filter(job=job, number=1).update(held_until=timezone.now() - LONG_AGO)
        look(disk, queued=1)
        assert rung == [("slice", job.public_id, 1)]

    def test_a_job_whose_chord_never_fired_is_finished(self, rung: Rung, disk: FileDisk, job: BulkJob) -> None:
        jobs_made.begin(job, disk)
        BulkSlice.objects.filter(job=job).update(state=SliceState.DONE.value)
        look(disk)
        assert rung == [("finish", job.public_id)]

    def test_a_job_that_nobody_finished_though_he_had_begun_is_finished(
        self, rung: Rung, disk: FileDisk, job: BulkJob
    ) -> None:
        jobs_made.begin(job, disk)
        BulkSlice.objects.filter(job=job).update(state=SliceState.DONE.value)
        assert jobs.hold_to_end(job.public_id, "dies")
        look(disk)
        assert rung == []
        BulkJob.objects.filter(pk=job.pk).update(held_until=timezone.now() - LONG_AGO)
        look(disk)
        assert rung == [("finish", job.public_id)]

    def test_a_job_that_is_over_is_ended_when_nobody_works_on_it_any_more(
        self, rung: Rung, disk: FileDisk, job: BulkJob
    ) -> None:
        jobs_made.begin(job, disk)
        piece = take_slice(job.public_id, 0, "works")
        assert piece
        BulkJob.objects.filter(pk=job.pk).update(expires_at=timezone.now())
        look(disk)
        assert rung == []
        BulkSlice.objects.filter(pk=piece.pk).update(held_until=timezone.now() - LONG_AGO)
        look(disk)
        assert rung == [("finish", job.public_id)]

    def test_nothing_is_rung_for_a_job_that_has_ended(self, rung: Rung, disk: FileDisk, job: BulkJob) -> None:
        jobs_made.begin(job, disk)
        age(job)
        BulkJob.objects.filter(pk=job.pk).update(status=JobStatus.CANCELLED.value)
        look(disk)
        assert rung == []


def make_old(path: Path) -> None:
    then = time.time() - 10 * sweep.LEFT_S
    os.utime(path, (then, then))


@pytest.mark.django_db
class TestCleaning:
    def test_a_file_whose_time_is_over_goes_with_its_row(self, disk: FileDisk, job: BulkJob) -> None:
        BulkJob.objects.filter(pk=job.pk).update(status=JobStatus.COMPLETED.value)
        path = disk.path(job.input_file_id)
        clean(disk)
        assert path.exists()
        StoredFile.objects.update(expires_at=timezone.now())
        assert clean(disk) == 1
        assert not path.exists()
        assert not StoredFile.objects.exists()

    def test_a_file_that_a_job_reads_stays_until_the_job_has_ended(self, disk: FileDisk, job: BulkJob) -> None:
        StoredFile.objects.update(expires_at=timezone.now())
        assert clean(disk) == 0
        assert disk.path(job.input_file_id).exists()

    def test_what_lies_on_the_disk_and_belongs_to_nobody_goes_after_a_day(self, disk: FileDisk, job: BulkJob) -> None:
        known = disk.path(job.input_file_id)
        lost, part = known.with_name(known.name[:-6] + "ffffff"), disk.new_part()
        lost.write_bytes(b"{}")
        running = disk.make_job_directory(job.public_id)
        ended = disk.make_job_directory("batch_" + "0" * 24)
        clean(disk)
        assert all(path.exists() for path in (known, lost, part, running, ended))
        for path in (known, lost, part, running, ended):
            make_old(path)
        clean(disk)
        assert [path.exists() for path in (known, lost, part, running, ended)] == [True, False, False, True, False]
