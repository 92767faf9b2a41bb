"""Which batches a list shows: open ones by expiry, ended ones from the newest on."""

from dataclasses import dataclass

from django.db.models import QuerySet

from domain.bulk.status import OPEN, JobStatus
from tenants.models import BulkJob, Tenant

OPEN_SHOWN = 100
PAGE = 25

ENDED = tuple(status for status in JobStatus if status not in OPEN)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a list is narrowed to.

    Attributes:
        tenant: exactly this one (its slug); "" for all.
        status: likewise.
        page: of the ended ones, from 1.
    """

    tenant: str = ""
    status: str = ""
    page: int = 1


def open_jobs(wanted: Wanted) -> tuple[list[BulkJob], int]:
    """The open batches that expire first, with their tenants; and how many there are in all."""
    jobs = _narrowed(wanted).filter(status__in=OPEN)
    found = list(jobs.select_related("tenant").order_by("expires_at", "id")[: OPEN_SHOWN + 1])
    total = jobs.count() if len(found) > OPEN_SHOWN else len(found)
    return found[:OPEN_SHOWN], total


def ended_jobs(wanted: Wanted) -> tuple[list[BulkJob], bool]:
    """One page of ended batches with their tenants, the newest first; and whether there are more."""
    begin, end = (wanted.page - 1) * PAGE, wanted.page * PAGE + 1
    found = sorted((row for jobs in _indexed(wanted) for row in _newest(jobs, end)), reverse=True)[begin:end]
    by_key = BulkJob.objects.select_related("tenant").in_bulk([pk for _at, pk in found[:PAGE]])
    return [by_key[pk] for _at, pk in found[:PAGE] if pk in by_key], len(found) > PAGE


def _indexed(wanted: Wanted) -> list["QuerySet[BulkJob]"]:
    """The ended batches in parts that an index holds in order of time: one tenant's, or all with one status."""
    if wanted.status and wanted.status not in ENDED:
        return []
    if wanted.tenant:
        return [_narrowed(wanted).filter(status__in=ENDED)]
    statuses = [wanted.status] if wanted.status else [status.value for status in ENDED]
    return [BulkJob.objects.filter(status=status) for status in statuses]


def _newest(jobs: "QuerySet[BulkJob]", count: int) -> list[tuple[object, int]]:
    return list(jobs.order_by("-created_at", "-id").values_list("created_at", "id")[:count])


def _narrowed(wanted: Wanted) -> "QuerySet[BulkJob]":
    jobs = BulkJob.objects.all()
    if wanted.tenant:
        # By key: then the index of one tenant's batches is used.
        jobs = jobs.filter(tenant__in=list(Tenant.objects.filter(slug=wanted.tenant).values_list("pk", flat=True)))
    return jobs.filter(status=wanted.status) if wanted.status else jobs
