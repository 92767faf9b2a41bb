"""Batches as operators see them: how far each is, how fast, and whether it ends in time."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypedDict

from django.db.models import Count, Q
from django.urls import reverse

from domain.bulk.status import JobStatus, SliceState
from gateway_admin import batches_wording as words
from gateway_admin.batches_rate import Rate, RateMemory, rate_of
from tenants.bulk.jobs import counted
from tenants.models import BulkJob, BulkSlice

PATIENCE = timedelta(seconds=30)
"""A process that is free takes a batch sooner."""
_SOON = timedelta(hours=1)
_NEVER = timedelta(days=3650)

TONES = {
    JobStatus.VALIDATING: "starting",
    JobStatus.FAILED: "failed",
    JobStatus.IN_PROGRESS: "ready",
    JobStatus.FINALIZING: "starting",
    JobStatus.COMPLETED: "ready",
    JobStatus.EXPIRED: "failed",
    JobStatus.CANCELLING: "draining",
    JobStatus.CANCELLED: "",
}
"""Status -> the colour of its badge, as workers have them; what it says is written in it."""

_memory = RateMemory()


class EndView(TypedDict):
    """When a batch will end: how far away, when, and how that stands to its expiry; empty texts where unknown."""

    when: str
    at: str
    note: str
    level: str


class BatchBase(TypedDict):
    """What every list shows of a batch."""

    id: str
    url: str
    tenant: str
    endpoint: str
    model: str
    status: str
    status_name: str
    tone: str
    completed: int
    failed: int
    total: int


class BatchView(BatchBase):
    """One open batch; ``level`` of its warning is "bad", "wait" or ""."""

    per_minute: float | None
    rate_note: str
    end: EndView
    level: str
    warning: str
    waits: str
    expires: str
    expires_in: str


@dataclass(frozen=True, slots=True)
class Held:
    """How many slices of a batch there are, and how many are done or being worked on."""

    slices: int = 0
    done: int = 0
    running: int = 0

    @property
    def is_left(self) -> bool:
        """There is work, and nobody at it."""
        return self.done < self.slices and not self.running


def base(job: BulkJob) -> BatchBase:
    """What every list shows of a batch; its tenant was read with it."""
    return {
        "id": job.public_id,
        "url": reverse("batch", args=[job.public_id]),
        "tenant": job.tenant.slug,
        "endpoint": job.endpoint,
        "model": job.model,
        "status": job.status,
        "status_name": job.get_status_display(),
        "tone": TONES.get(JobStatus(job.status), ""),
        "completed": job.completed,
        "failed": job.failed,
        "total": job.total,
    }


def ended_at(job: BulkJob) -> datetime | None:
    """When a batch ended; None while it has not."""
    moments = {
        JobStatus.COMPLETED: job.completed_at,
        JobStatus.FAILED: job.failed_at,
        JobStatus.EXPIRED: job.expired_at,
        JobStatus.CANCELLED: job.cancelled_at,
    }
    return moments.get(JobStatus(job.status))


def held_of(jobs: Iterable[BulkJob], now: datetime) -> Mapping[int, Held]:
    """Who works on these batches, by key; one that has no slices is not in it."""
    is_running = Q(state=SliceState.RUNNING.value, held_until__gt=now)
    is_done = Q(state=SliceState.DONE.value)
    slices = BulkSlice.objects.filter(job__in=[job.pk for job in jobs]).order_by().values("job_id")
    counts = slices.annotate(slices=Count("id"), done=Count("id", is_done), running=Count("id", is_running))
    rows = counts.values_list("job_id", "slices", "done", "running")
    return {job_id: Held(*of_job) for job_id, *of_job in rows}


def views(jobs: Iterable[BulkJob], now: datetime, memory: RateMemory | None = None) -> list[BatchView]:
    """Open batches as they stand; two queries however many there are."""
    found = counted(jobs)
    held = held_of(found, now)
    return [_view(job, held.get(job.pk, Held()), now, _memory if memory is None else memory) for job in found]


def _view(job: BulkJob, held: Held, now: datetime, memory: RateMemory) -> BatchView:
    rate = _rate(job, now, memory)
    level, warning = _warning(job, held, rate, now)
    waits = words.waits_for(job.waiting_for) if job.waiting_for and job.status == JobStatus.IN_PROGRESS else ""
    return {
        **base(job),
        "per_minute": None if rate is None else rate.per_s * 60,
        "rate_note": _rate_note(rate),
        "end": _end(job, rate, now),
        "level": level,
        "warning": warning,
        "waits": waits,
        "expires": words.moment(job.expires_at),
        "expires_in": words.relative(job.expires_at, now),
    }


def _rate(job: BulkJob, now: datetime, memory: RateMemory) -> Rate | None:
    if job.status != JobStatus.IN_PROGRESS or job.in_progress_at is None:
        return None
    point = (now.timestamp(), job.completed + job.failed)
    return rate_of(memory.note(job.pk, *point), point, job.in_progress_at.timestamp())


def _rate_note(rate: Rate | None) -> str:
    if rate is None:
        return ""
    over = words.length(timedelta(seconds=rate.over_s))
    return words.last(over) if rate.is_recent else words.since_begin(over)


def ends_at(job: BulkJob, rate: Rate | None, now: datetime) -> datetime | None:
    """When a batch has all its results if it goes on like this; None if that is not known, or never."""
    if rate is None or rate.stands:
        return None
    left_s = (job.total - job.completed - job.failed) / rate.per_s
    return now + min(_NEVER, timedelta(seconds=max(0.0, left_s)))


def _end(job: BulkJob, rate: Rate | None, now: datetime) -> EndView:
    ends = ends_at(job, rate, now)
    if ends is None:
        return {"when": words.no_end(job.status, is_standing=rate is not None), "at": "", "note": "", "level": ""}
    note, level = words.against_expiry(ends, job.expires_at), "bad" if ends > job.expires_at else ""
    return {"when": words.relative(ends, now), "at": words.moment(ends), "note": note, "level": level}


def _warning(job: BulkJob, held: Held, rate: Rate | None, now: datetime) -> tuple[str, str]:
    """What is wrong with a batch and how bad that is; nothing if it goes well."""
    if job.status == JobStatus.VALIDATING:
        is_checked = job.held_until is not None and job.held_until > now
        waited = now - job.created_at
        return ("wait", words.unchecked(waited)) if waited > PATIENCE and not is_checked else ("", "")
    if job.status != JobStatus.IN_PROGRESS:
        return "", ""
    if job.expires_at <= now:
        return "wait", words.overdue()
    ends = ends_at(job, rate, now)
    if rate is not None and ends is not None and ends > job.expires_at:
        left = job.total - job.completed - job.failed
        missing = left - round(rate.per_s * (job.expires_at - now).total_seconds())
        return "bad", words.late(ends, job.expires_at, missing)
    if rate is not None and rate.stands:
        level = "bad" if job.expires_at - now < _SOON else "wait"
        return level, words.stands(timedelta(seconds=rate.over_s), job.waiting_for)
    began = job.in_progress_at or job.created_at
    return ("wait", words.unheld()) if held.is_left and now - began > PATIENCE else ("", "")


def nobody_works(now: datetime) -> bool:
    """There is work for bulk processes, for longer than a free one takes to come, and none is at any."""
    since = now - PATIENCE
    slices = BulkSlice.objects.filter(job__status=JobStatus.IN_PROGRESS.value, job__expires_at__gt=now)
    free = Q(held_until__isnull=True) | Q(held_until__lt=now)
    unchecked = BulkJob.objects.filter(free, status=JobStatus.VALIDATING.value)
    checking = BulkJob.objects.filter(status=JobStatus.VALIDATING.value, held_until__gt=now)
    waiting = slices.exclude(state=SliceState.DONE.value).filter(job__in_progress_at__lt=since)
    if slices.filter(state=SliceState.RUNNING.value, held_until__gt=now).exists() or checking.exists():
        return False
    return waiting.exists() or unchecked.filter(created_at__lt=since).exists()
