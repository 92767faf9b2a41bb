"""Bulk jobs in the database and on the disk, for tests."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from domain.bulk.status import JobStatus
from gateway.bulk.check import check_file
from tenants.bulk import jobs
from tenants.files.disk import FileDisk, make_file_id, make_job_id
from tenants.files.rows import add_file
from tenants.models import BulkJob, Plan, Tenant
from tenants.models.stored_file import BATCH
from tenants.provision import create_key

CHAT = "/v1/chat/completions"
MAX_LINE_BYTES = 1_000_000


def make_tenant(slug: str = "acme", **plan: Any) -> Tenant:
    """A tenant on a plan of its own, with one key."""
    tenant = Tenant.objects.create(slug=slug, name=slug, plan=Plan.objects.create(name=slug, **plan))
    create_key(tenant, "first")
    return tenant


def request_lines(ids: list[str]) -> bytes:
    """One chat for each id."""
    lines = [
        {"custom_id": one, "method": "POST", "url": CHAT, "body": {"model": "m", "messages": [], "name": one}}
        for one in ids
    ]
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def new_job(tenant: Tenant, file_id: str, **changes: Any) -> jobs.NewJob:
    """What a client asks for."""
    made = jobs.NewJob(
        *(make_job_id(), tenant.pk, tenant.keys.get().pk, CHAT, file_id, "24h", 86_400, None, None),
        *("ab" * 16, "cd" * 8),
    )
    return replace(made, **changes)


def make_job(tenant: Tenant, disk: FileDisk, content: bytes, **changes: Any) -> BulkJob:
    """A job whose file is stored and not checked."""

    part, file_id = disk.new_part(), make_file_id()
    part.write_bytes(content)
    size = disk.keep(part, file_id)
    add_file(tenant.pk, file_id, "in.jsonl", BATCH, size, timedelta(days=1))
    job = jobs.create_job(new_job(tenant, file_id))
    if changes:
        BulkJob.objects.filter(pk=job.pk).update(**changes)
    return BulkJob.objects.get(pk=job.pk)


def begin(job: BulkJob, disk: FileDisk) -> BulkJob:
    """Check a job's file and let it begin, as a bulk process does."""
    held = jobs.hold_job(job.public_id, "test", JobStatus.VALIDATING)
    assert held is not None
    path = disk.path(job.input_file_id)
    checked = check_file(path, job.endpoint, MAX_LINE_BYTES, lambda model: None, lambda: None)
    assert jobs.begin_job(held, checked.model, checked.total, checked.cuts)
    return BulkJob.objects.get(pk=job.pk)


def lines_of(disk: FileDisk, file_id: str) -> list[Mapping[str, Any]]:
    """The objects of a file that a tenant gets."""
    path: Path = disk.path(file_id)
    return [json.loads(line) for line in path.read_bytes().splitlines()]
