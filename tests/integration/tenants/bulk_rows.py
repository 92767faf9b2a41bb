"""Bulk jobs and files as rows alone, and several who ask at the same moment."""

import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypeVar

from django.db import connections
from django.utils import timezone

from domain.bulk.status import JobStatus, SliceState
from tenants.bulk import jobs
from tenants.bulk.jobs import NewJob, SliceCut
from tenants.files import rows as files
from tenants.files.disk import make_file_id, make_job_id
from tenants.models import ApiKey, BulkJob, StoredFile, Tenant

T = TypeVar("T")

DAY = timedelta(days=1)
PAST, FUTURE = timedelta(seconds=-1), timedelta(hours=1)
NO_COUNTS = dict.fromkeys(jobs.COUNTS, 0)
AT_ONCE = 4


def add_file(tenant: Tenant, size: int = 1, purpose: str = "batch", **changes: Any) -> StoredFile:
    file = files.add_result(tenant.pk, make_file_id(), "requests.jsonl", purpose, size, DAY)
    StoredFile.objects.filter(pk=file.pk).update(**changes)
    return file


def new_job(tenant: Tenant, key: ApiKey, file: StoredFile | None = None) -> NewJob:
    return NewJob(
        public_id=make_job_id(),
        tenant_id=tenant.pk,
        key_id=key.pk,
        endpoint="/v1/completions",
        input_file_id=(file or add_file(tenant)).public_id,
        window="24h",
        window_s=86_400,
        metadata=None,
        output_lives_s=None,
        trace_id="0" * 32,
        parent_id="",
    )


def begun(tenant: Tenant, key: ApiKey, slices_count: int = 2) -> BulkJob:
    """A job in progress, of slices of ten requests each."""
    job = jobs.create_job(new_job(tenant, key))
    cuts = [SliceCut(10 * number + 1, 10, 100 * number, 100) for number in range(slices_count)]
    assert jobs.begin_job(job, "m", 10 * slices_count, cuts)
    job.refresh_from_db()
    return job


def put(job: BulkJob, status: JobStatus, expires_in: timedelta = FUTURE) -> None:
    """Bring a job into a status."""
    BulkJob.objects.filter(pk=job.pk).update(status=status.value, expires_at=timezone.now() + expires_in)


def put_slices(job: BulkJob, state: SliceState, held_for: timedelta | None = None) -> None:
    until = None if held_for is None else timezone.now() + held_for
    job.slices.update(state=state.value, held_until=until)


def status_of(job: BulkJob) -> str:
    return BulkJob.objects.get(pk=job.pk).status


def all_at_once(works: list[Callable[[], T]]) -> list[T | Exception]:
    """What each of them returned or raised, each in a thread with a connection of its own."""
    barrier = threading.Barrier(len(works))
    came: dict[int, T | Exception] = {}

    def run(place: int) -> None:
        try:
            barrier.wait()
            came[place] = works[place]()
        except Exception as error:
            came[place] = error
        finally:
            connections.close_all()

    threads = [threading.Thread(target=run, args=[place]) for place in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [came[place] for place in range(len(works))]
