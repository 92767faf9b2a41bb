"""Rows of bulk jobs. What a tenant asks for is its own; what processes do with a job names it by its id alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, Sum
from django.utils import timezone

from domain.bulk.status import CANCELLABLE, OPEN, JobStatus, SliceState
from tenants.models import BulkJob, BulkSlice, StoredFile, Tenant
from tenants.models.stored_file import BATCH

MAX_OPEN_JOBS = 100
"""Of one tenant."""

HOLD_S = 60.0
"""For so long nobody else checks a job's file or puts its results together."""

COUNTS = ("completed", "failed", "prompt_tokens", "cached_tokens", "completion_tokens")

ENDING = (JobStatus.FINALIZING.value, JobStatus.CANCELLING.value)
"""Statuses in which results are put together."""

_BEGINS = {
    JobStatus.IN_PROGRESS: "in_progress_at",
    JobStatus.FINALIZING: "finalizing_at",
    JobStatus.COMPLETED: "completed_at",
    JobStatus.FAILED: "failed_at",
    JobStatus.EXPIRED: "expired_at",
    JobStatus.CANCELLING: "cancelling_at",
    JobStatus.CANCELLED: "cancelled_at",
}


class TooManyJobs(Exception):
    """The tenant has ``MAX_OPEN_JOBS`` that have not ended."""


class NoSuchFile(Exception):
    """The tenant has no such file of requests."""


class KeyReused(Exception):
    """The idempotency key came with another body before."""


class JobEnded(Exception):
    """It cannot be cancelled any more; ``status`` says why."""

    def __init__(self, status: str) -> None:
        super().__init__(status)
        self.status = status


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to make.

    Attributes:
        window: to be completed within, as the client wrote it; ``window_s`` the same in seconds.
        output_lives_s: for so long its results are kept; None for as long as any file.
        trace_id: of the request that made it; ``parent_id`` the client's span, or "".
        idempotency_key: digest of the client's key, or ""; ``idempotency_body`` of the body that came with it.
    """

    public_id: str
    tenant_id: int
    key_id: int
    endpoint: str
    input_file_id: str
    window: str
    window_s: int
    metadata: dict[str, str] | None
    output_lives_s: int | None
    trace_id: str
    parent_id: str
    idempotency_key: str = ""
    idempotency_body: str = ""


@dataclass(frozen=True, slots=True)
class SliceCut:
    """Where one slice of a file lies, see :class:`~tenants.models.BulkSlice`."""

    first_line: int
    lines: int
    offset: int
    size_bytes: int


def create_job(new: NewJob) -> BulkJob:
    """Write a job that waits for its file to be checked; or give the one that was made with the same key before.

    Raises:
        TooManyJobs, NoSuchFile, KeyReused: it cannot be.
    """
    now = timezone.now()
    with transaction.atomic():
        Tenant.objects.select_for_update().get(pk=new.tenant_id)
        if new.idempotency_key and (made := _made_before(new)):
            return made
        files = StoredFile.objects.filter(tenant_id=new.tenant_id, purpose=BATCH, public_id=new.input_file_id)
        if not files.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now)).exists():
            raise NoSuchFile
        if BulkJob.objects.filter(tenant_id=new.tenant_id, status__in=OPEN).count() >= MAX_OPEN_JOBS:
            raise TooManyJobs
        return BulkJob.objects.create(
            public_id=new.public_id,
            tenant_id=new.tenant_id,
            key_id=new.key_id,
            endpoint=new.endpoint,
            input_file_id=new.input_file_id,
            completion_window=new.window,
            metadata=new.metadata,
            output_lives_s=new.output_lives_s,
            trace_id=new.trace_id,
            parent_id=new.parent_id,
            idempotency_key=new.idempotency_key,
            idempotency_body=new.idempotency_body,
            created_at=now,
            expires_at=now + timedelta(seconds=new.window_s),
        )


def _made_before(new: NewJob) -> BulkJob | None:
    found = BulkJob.objects.filter(tenant_id=new.tenant_id, idempotency_key=new.idempotency_key).first()
    if found is not None and found.idempotency_body != new.idempotency_body:
        raise KeyReused
    return counted([found])[0] if found else None


def find_job(tenant_id: int, public_id: str) -> BulkJob | None:
    """A job of the tenant, counted."""
    found = BulkJob.objects.filter(tenant_id=tenant_id, public_id=public_id).first()
    return counted([found])[0] if found else None


def list_jobs(tenant_id: int, after: str | None, count: int) -> list[BulkJob] | None:
    """Some of the tenant's jobs, the newest first, from the one after ``after`` on; None if that is not there."""
    found = BulkJob.objects.filter(tenant_id=tenant_id)
    if after is not None:
        last = found.filter(public_id=after).first()
        if last is None:
            return None
        found = found.filter(Q(created_at__lt=last.created_at) | Q(created_at=last.created_at, pk__lt=last.pk))
    return counted(found.order_by("-created_at", "-id")[:count])


def counted(jobs: Iterable[BulkJob]) -> list[BulkJob]:
    """The same jobs with their counts up to date: while they are open, those of their slices; not to be saved."""
    found = list(jobs)
    running = [job.pk for job in found if job.status in OPEN]
    sums = {row["job_id"]: row for row in _sums(running)} if running else {}
    for job in found:
        for name in COUNTS:
            setattr(job, name, sums.get(job.pk, {}).get(f"sum_{name}", getattr(job, name)))
    return found


def _sums(job_pks: Sequence[int]) -> list[Any]:
    sums = {f"sum_{name}": Sum(name) for name in COUNTS}
    return list(BulkSlice.objects.filter(job_id__in=job_pks).order_by().values("job_id").annotate(**sums))


def cancel_job(public_id: str, tenant_id: int | None = None) -> BulkJob | None:
    """Have a job cancelled; None if there is none. A tenant's own, unless an operator asks.

    Raises:
        JobEnded: it has, or is about to.
    """
    jobs = BulkJob.objects.filter(public_id=public_id)
    jobs = jobs if tenant_id is None else jobs.filter(tenant_id=tenant_id)
    changed = jobs.filter(status__in=CANCELLABLE).update(
        status=JobStatus.CANCELLING.value, cancelling_at=timezone.now(), waiting_for=""
    )
    found = jobs.first()
    if found is not None and not changed and found.status != JobStatus.CANCELLING:
        raise JobEnded(found.status)
    return counted([found])[0] if found else None


# --- what bulk processes do with a job ---------------------------------------------------------------------------


def hold_job(public_id: str, owner: str, status: JobStatus) -> BulkJob | None:
    """Take a job that stands at ``status``, so that nobody else does the same; None if it stands elsewhere or is held.

    It is held for ``HOLD_S``, or until it ends.
    """
    now = timezone.now()
    free = Q(held_until__isnull=True) | Q(held_until__lt=now) | Q(held_by=owner)
    taken = BulkJob.objects.filter(free, public_id=public_id, status=status.value).update(
        held_by=owner, held_until=now + timedelta(seconds=HOLD_S)
    )
    # It may be erased at any moment.
    return BulkJob.objects.select_related("key", "tenant").filter(public_id=public_id).first() if taken else None


def refuse_job(job: BulkJob, errors: list[dict[str, Any]]) -> bool:
    """End a job whose file is no good, with OpenAI's objects of what is wrong; False if it was cancelled meanwhile."""
    return _go_on(job, JobStatus.VALIDATING, JobStatus.FAILED, errors=errors, held_by="", held_until=None)


def begin_job(job: BulkJob, model: str, total: int, cuts: Sequence[SliceCut]) -> bool:
    """Let the slices of a checked job begin; False if it was cancelled meanwhile."""
    with transaction.atomic():
        begun = _go_on(
            job, JobStatus.VALIDATING, JobStatus.IN_PROGRESS, model=model, total=total, held_by="", held_until=None
        )
        if begun:
            BulkSlice.objects.bulk_create(
                BulkSlice(
                    job=job,
                    number=number,
                    first_line=cut.first_line,
                    lines=cut.lines,
                    offset=cut.offset,
                    size_bytes=cut.size_bytes,
                )
                for number, cut in enumerate(cuts)
            )
        return begun


def is_worked_off(job: BulkJob) -> bool:
    """Every request of it has a result."""
    return not BulkSlice.objects.filter(job=job).exclude(state=SliceState.DONE.value).exists()


def hold_to_end(public_id: str, owner: str) -> tuple[BulkJob, JobStatus] | None:
    """Take a job that is to end now, with the status that it will get; None if it is not to, or somebody has it.

    It ends when all its requests have results; or when it was cancelled or its time is over, and nobody works on it.
    """
    job = BulkJob.objects.filter(public_id=public_id).first()
    end = _end_of(job) if job else None
    if job is None or end is None:
        return None
    if job.status == JobStatus.IN_PROGRESS:  # from here on it cannot be cancelled any more
        _go_on(job, JobStatus.IN_PROGRESS, JobStatus.FINALIZING)
    held = hold_job(public_id, owner, JobStatus.CANCELLING if end is JobStatus.CANCELLED else JobStatus.FINALIZING)
    return (held, end) if held else None


def _end_of(job: BulkJob) -> JobStatus | None:
    if job.status == JobStatus.CANCELLING:
        return None if _is_worked_on(job) else JobStatus.CANCELLED
    if job.status not in (JobStatus.IN_PROGRESS, JobStatus.FINALIZING):
        return None
    if is_worked_off(job):
        return JobStatus.COMPLETED
    if job.expires_at <= timezone.now() and not _is_worked_on(job):
        return JobStatus.EXPIRED
    return None


def _is_worked_on(job: BulkJob) -> bool:
    running = BulkSlice.objects.filter(job=job, state=SliceState.RUNNING.value, held_until__gt=timezone.now())
    return running.exists()


def end_job(job: BulkJob, end: JobStatus, output_file_id: str, error_file_id: str, counts: dict[str, int]) -> bool:
    """Write how a held job ended, and what came of it; its slices go.

    The rows of its files are to be written in the same transaction: whoever erases the tenant's files then comes
    before, and nothing is written, or afterwards, and finds all of it.

    Returns:
        False, and nothing was written, if the job is not there any more, or has ended already: one who puts results
        together for longer than ``HOLD_S`` may find that another one has done the same.
    """
    with transaction.atomic():
        # First, as everybody does who writes a tenant's files: in another order two could wait for each other.
        Tenant.objects.select_for_update().filter(pk=job.tenant_id).first()
        ended = BulkJob.objects.filter(pk=job.pk, status__in=ENDING).update(
            status=end.value,
            **{_BEGINS[end]: timezone.now()},
            output_file_id=output_file_id,
            error_file_id=error_file_id,
            waiting_for="",
            held_by="",
            held_until=None,
            **counts,
        )
        if ended:
            BulkSlice.objects.filter(job=job).delete()
        return bool(ended)


def _go_on(job: BulkJob, before: JobStatus, after: JobStatus, **changes: Any) -> bool:
    changes |= {"status": after.value, _BEGINS[after]: timezone.now()}
    return bool(BulkJob.objects.filter(pk=job.pk, status=before.value).update(**changes))


# --- what nobody works on ----------------------------------------------------------------------------------------


def unchecked(now: datetime, older_than_s: float) -> list[str]:
    """Ids of jobs whose files nobody checks, though they were made some time ago."""
    free = Q(held_until__isnull=True) | Q(held_until__lt=now)
    old = now - timedelta(seconds=older_than_s)
    found = BulkJob.objects.filter(free, status=JobStatus.VALIDATING.value, created_at__lt=old)
    return list(found.values_list("public_id", flat=True))


def ending(now: datetime) -> list[str]:
    """Ids of jobs that are to end now and that nobody has."""
    free = Q(held_until__isnull=True) | Q(held_until__lt=now)
    open_ones = (JobStatus.IN_PROGRESS.value, JobStatus.FINALIZING.value, JobStatus.CANCELLING.value)
    return [job.public_id for job in BulkJob.objects.filter(free, status__in=open_ones) if _end_of(job) is not None]


def is_there(public_id: str) -> bool:
    """Whether there is such a job, of whatever status: those of a tenant may be erased at any moment."""
    return BulkJob.objects.filter(public_id=public_id).exists()


def unknown_jobs(public_ids: Sequence[str]) -> set[str]:
    """Those of these ids that are no open jobs."""
    known = BulkJob.objects.filter(public_id__in=public_ids, status__in=OPEN)
    return set(public_ids) - set(known.values_list("public_id", flat=True))


def jobs_by_status() -> dict[str, int]:
    """How many jobs are open, by status."""
    found = BulkJob.objects.filter(status__in=OPEN).values_list("status", flat=True)
    counts = {status.value: 0 for status in OPEN}
    for status in found:
        counts[status] += 1
    return counts
