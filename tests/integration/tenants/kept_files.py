"""Files and batches of tenants with what they have on the disk."""

from datetime import timedelta
from pathlib import Path

from django.utils import timezone

from domain.bulk.status import SliceState
from domain.usage import Usage
from gateway.bulk.part import PartWriter, Result
from tenants.files.disk import FileDisk, make_file_id, make_job_id
from tenants.models import BulkJob, BulkSlice, StoredFile, Tenant

DAY = timedelta(days=1)
LINE = b'{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"model":"m","prompt":"%s"}}\n'


def add_file(disk: FileDisk, tenant: Tenant, purpose: str = "batch") -> StoredFile:
    part, file_id = disk.new_part(), make_file_id()
    part.write_bytes(LINE % tenant.slug.encode())
    size = disk.keep(part, file_id)
    return StoredFile.objects.create(
        tenant=tenant, public_id=file_id, filename=f"{tenant.slug}.jsonl", purpose=purpose, size_bytes=size
    )


def add_job(disk: FileDisk, tenant: Tenant, status: str) -> BulkJob:
    """A batch of one request, which has an answer, with a slice that somebody works on."""
    job = BulkJob.objects.create(
        tenant=tenant,
        public_id=make_job_id(),
        endpoint="/v1/completions",
        status=status,
        input_file_id=add_file(disk, tenant).public_id,
        total=1,
        expires_at=timezone.now() + DAY,
    )
    BulkSlice.objects.create(
        job=job, number=0, first_line=1, lines=1, offset=0, size_bytes=100, state=SliceState.RUNNING.value, attempt=1
    )
    writer = PartWriter(disk.make_job_directory(job.public_id), 0, 1)
    writer.write(Result(1, True, Usage(1, 0, 1), b'{"said":"%s"}' % tenant.slug.encode()))
    writer.close()
    return job


def lies_on(disk_root: Path, text: str) -> list[str]:
    return [file.name for file in disk_root.rglob("*") if file.is_file() and text.encode() in file.read_bytes()]
