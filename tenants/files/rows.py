"""Rows of tenants' files. Each call is a tenant's own, or says that it is not."""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from domain.bulk.status import OPEN
from tenants.models import BulkJob, Plan, StoredFile, Tenant

MIB = 1024 * 1024
MAX_FILES = 10_000
"""Of one tenant."""


class NoFilesAllowed(Exception):
    """The tenant's plan keeps no files."""


class TooMuchStored(Exception):
    """There is no room for one more.

    Attributes:
        kept_bytes: what the tenant's files take; ``most_bytes`` what they may.
    """

    def __init__(self, kept_bytes: int, most_bytes: int) -> None:
        super().__init__(f"{kept_bytes} of {most_bytes} bytes are taken")
        self.kept_bytes, self.most_bytes = kept_bytes, most_bytes


class FileInUse(Exception):
    """A bulk job that has not ended reads the file; ``job_id`` names it."""

    def __init__(self, job_id: str) -> None:
        super().__init__(job_id)
        self.job_id = job_id


def room_for(tenant_id: int) -> int:
    """Bytes that the tenant may still store.

    Raises:
        NoFilesAllowed: none at all, by its plan.
        TooMuchStored: none at present.
    """
    most = MIB * Tenant.objects.values_list("plan__files_mib", flat=True).get(pk=tenant_id)
    if not most:
        raise NoFilesAllowed
    files = StoredFile.objects.filter(tenant_id=tenant_id)
    kept = files.aggregate(bytes=Sum("size_bytes"))["bytes"] or 0
    if kept >= most or files.count() >= MAX_FILES:
        raise TooMuchStored(kept, most)
    return most - kept


def tenants_above(plan: Plan, most_mib: int) -> int:
    """How many tenants of a plan have stored ``most_mib`` or more, so that none of them could store anything more."""
    kept = StoredFile.objects.filter(tenant__plan=plan).order_by().values("tenant").annotate(bytes=Sum("size_bytes"))
    return kept.filter(bytes__gte=most_mib * MIB).count()


def add_file(
    tenant_id: int, public_id: str, filename: str, purpose: str, size_bytes: int, lives: timedelta
) -> StoredFile:
    """Write the row of a file whose contents are there.

    Raises:
        NoFilesAllowed, TooMuchStored: it does not fit.
    """
    with transaction.atomic():
        # Held by the tenant's row, two that come at once cannot both take the last room.
        Tenant.objects.select_for_update().get(pk=tenant_id)
        if size_bytes > (room := room_for(tenant_id)):
            most = MIB * Tenant.objects.values_list("plan__files_mib", flat=True).get(pk=tenant_id)
            raise TooMuchStored(most - room, most)
        return add_result(tenant_id, public_id, filename, purpose, size_bytes, lives)


def add_result(
    tenant_id: int, public_id: str, filename: str, purpose: str, size_bytes: int, lives: timedelta
) -> StoredFile:
    """Write the row of a file that the tenant has paid for: it is kept also where there is no room for more."""
    now = timezone.now()
    return StoredFile.objects.create(
        tenant_id=tenant_id,
        public_id=public_id,
        filename=filename,
        purpose=purpose,
        size_bytes=size_bytes,
        created_at=now,
        expires_at=now + lives,
    )


def find_file(tenant_id: int, public_id: str) -> StoredFile | None:
    """A file of the tenant that has not expired."""
    return _living(tenant_id).filter(public_id=public_id).first()


def list_files(
    tenant_id: int, *, after: str | None, count: int, purpose: str | None, newest_first: bool
) -> list[StoredFile] | None:
    """Some of the tenant's files, from the one after ``after`` on; None if that one is not there."""
    found = _living(tenant_id)
    if after is not None:
        last = found.filter(public_id=after).first()
        if last is None:
            return None
        found = found.filter(_behind(last, newest_first=newest_first))
    if purpose:
        found = found.filter(purpose=purpose)
    order = ("-created_at", "-id") if newest_first else ("created_at", "id")
    return list(found.order_by(*order)[:count])


def delete_file(tenant_id: int, public_id: str) -> bool:
    """Delete a file's row; False if there is none. Its contents are to be removed afterwards.

    Raises:
        FileInUse: a job reads it.
    """
    with transaction.atomic():
        Tenant.objects.select_for_update().get(pk=tenant_id)
        if not StoredFile.objects.filter(tenant_id=tenant_id, public_id=public_id).exists():
            return False
        reads = BulkJob.objects.filter(tenant_id=tenant_id, input_file_id=public_id, status__in=OPEN).first()
        if reads is not None:
            raise FileInUse(reads.public_id)
        StoredFile.objects.filter(tenant_id=tenant_id, public_id=public_id).delete()
        return True


def expired_ids(now: datetime, count: int) -> list[str]:
    """Ids of files whose time is over, but those that a job still reads."""
    read = BulkJob.objects.filter(status__in=OPEN).values("input_file_id")
    over = StoredFile.objects.filter(expires_at__lte=now).exclude(public_id__in=read)
    return list(over.values_list("public_id", flat=True)[:count])


def forget_files(public_ids: list[str]) -> None:
    """Delete rows, whosever they are."""
    StoredFile.objects.filter(public_id__in=public_ids).delete()


def known_ids(public_ids: list[str]) -> set[str]:
    """Those of these ids that have rows."""
    return set(StoredFile.objects.filter(public_id__in=public_ids).values_list("public_id", flat=True))


def _living(tenant_id: int) -> "QuerySet[StoredFile]":
    now = timezone.now()
    return StoredFile.objects.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=now), tenant_id=tenant_id)


def _behind(last: StoredFile, *, newest_first: bool) -> Q:
    """Rows that come after another one in a list."""
    how = "lt" if newest_first else "gt"
    later = Q(**{f"created_at__{how}": last.created_at})
    return later | Q(created_at=last.created_at, **{f"pk__{how}": last.pk})
