"""Rows of slices: each is worked off by one process at a time, under a lease."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import F, Q
from django.utils import timezone

from domain.bulk.status import JobStatus, SliceState
from tenants.models import BulkJob, BulkSlice

LEASE_S = 10.0
"""A process that has told nothing for so long has lost its slice."""


def take_slice(job_id: str, number: int, owner: str) -> BulkSlice | None:
    """Take a slice under a lease; None if it is done or held, or its job is not in progress or has no time left."""
    now = timezone.now()
    free = Q(state=SliceState.WAITING.value) | Q(state=SliceState.RUNNING.value, held_until__lt=now)
    wanted = BulkSlice.objects.filter(
        free,
        number=number,
        job__public_id=job_id,
        job__status=JobStatus.IN_PROGRESS.value,
        job__expires_at__gt=now,
    )
    # By key: a database may not update rows that it finds by a join.
    found = wanted.first()
    if found is None or not BulkSlice.objects.filter(free, pk=found.pk, attempt=found.attempt).update(
        state=SliceState.RUNNING.value,
        held_by=owner,
        held_until=now + timedelta(seconds=LEASE_S),
        attempt=F("attempt") + 1,
    ):
        return None
    # It may be erased at any moment.
    return BulkSlice.objects.select_related("job__tenant", "job__key").filter(pk=found.pk).first()


def beat(piece: BulkSlice, counts: Mapping[str, int], waiting_for: str) -> bool:
    """Tell how far it is and keep it; False if it is to be left: it was lost, or its job is to end.

    Args:
        piece: the slice, as it was taken.
        counts: of all its results, by the names of its columns.
        waiting_for: why none of its requests is taken at present, or "".
    """
    now = timezone.now()
    mine = BulkSlice.objects.filter(pk=piece.pk, attempt=piece.attempt, state=SliceState.RUNNING.value)
    if not mine.update(held_until=now + timedelta(seconds=LEASE_S), **counts):
        return False
    job = BulkJob.objects.filter(pk=piece.job_id)
    job.exclude(waiting_for=waiting_for).filter(status=JobStatus.IN_PROGRESS.value).update(waiting_for=waiting_for)
    return job.filter(status=JobStatus.IN_PROGRESS.value, expires_at__gt=now).exists()


def tenant_of(job_id: str, number: int) -> int | None:
    """Whose a slice is; None if there is none that waits."""
    found = BulkSlice.objects.filter(job__public_id=job_id, number=number, state=SliceState.WAITING.value)
    return found.values_list("job__tenant_id", flat=True).first()


def rest_slice(job_id: str, number: int, rest_s: float) -> None:
    """Miss no message of a slice for so long: one is on its way that late."""
    later = timezone.now() + timedelta(seconds=rest_s)
    BulkSlice.objects.filter(job__public_id=job_id, number=number).update(rung_at=later)


def leave_slice(piece: BulkSlice, counts: Mapping[str, int], *, is_done: bool) -> None:
    """Give a slice back: done, or to be gone on with by whoever takes it next."""
    state = SliceState.DONE if is_done else SliceState.WAITING
    mine = BulkSlice.objects.filter(pk=piece.pk, attempt=piece.attempt, state=SliceState.RUNNING.value)
    mine.update(state=state.value, held_by="", held_until=None, rung_at=timezone.now(), **counts)


def lost_slices(now: datetime, *, rung_before: datetime, waiting_since: datetime) -> list[tuple[str, int]]:
    """Job and number of slices that nobody works on, and mark them as rung.

    Args:
        now: the time.
        rung_before: those whose process died, if they were last rung before.
        waiting_since: those that wait, if they were last rung before: their message may be lost.
    """
    lost = Q(state=SliceState.RUNNING.value, held_until__lt=now, rung_at__lt=rung_before)
    lost |= Q(state=SliceState.WAITING.value, rung_at__lt=waiting_since)
    found = BulkSlice.objects.filter(lost, job__status=JobStatus.IN_PROGRESS.value, job__expires_at__gt=now)
    rows = list(found.values_list("pk", "job__public_id", "number"))
    BulkSlice.objects.filter(pk__in=[pk for pk, _, _ in rows]).update(rung_at=now)
    return [(job_id, number) for _, job_id, number in rows]
