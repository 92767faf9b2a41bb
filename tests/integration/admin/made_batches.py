"""Batches written by hand, as gateways and bulk processes leave them."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from tenants.models import BulkJob, BulkSlice, Tenant

SECRET = "top secret words"
"""What a tenant writes into files, names and metadata."""


def ago(**lengths: float) -> datetime:
    """The moment so long ago."""
    return timezone.now() - timedelta(**lengths)


def made(tenant: Tenant, number: int = 1, **fields: Any) -> BulkJob:
    """A batch of 1,000 requests in progress, begun an hour ago, that expires in 23 hours."""
    created = fields.pop("created_at", ago(hours=1))
    told = {
        "public_id": f"batch_{number:024x}",
        "endpoint": "/v1/chat/completions",
        "model": "m1",
        "status": "in_progress",
        "input_file_id": f"file-{number:024x}",
        "metadata": {"note": SECRET},
        "trace_id": f"{number:08x}beef{number:020x}",
        "total": 1_000,
        "created_at": created,
        "in_progress_at": created,
        "expires_at": created + timedelta(hours=24),
    }
    return BulkJob.objects.create(tenant=tenant, **{**told, **fields})


def sliced(job: BulkJob, *slices: dict[str, Any]) -> BulkJob:
    """Give a batch its slices; one is held by a process that lives, if nothing else is said."""
    each = job.total // max(1, len(slices))
    held = {"state": "running", "held_by": "bulk-1", "held_until": timezone.now() + timedelta(seconds=20), "attempt": 1}
    for number, fields in enumerate(slices):
        place = {"number": number, "first_line": number * each + 1, "lines": each, "offset": 0, "size_bytes": 1}
        BulkSlice.objects.create(job=job, **{**place, **held, **fields})
    return job


def ended(tenant: Tenant, number: int, status: str = "completed", **fields: Any) -> BulkJob:
    """A batch that ended a minute after it was made."""
    created = fields.setdefault("created_at", ago(hours=2))
    fields.setdefault("completed", 990)
    fields.setdefault("failed", 10)
    return made(tenant, number, status=status, **{f"{status}_at": created + timedelta(minutes=1)}, **fields)
