"""Where a gateway takes bulk jobs in, tells how they stand, and has them cancelled."""

import asyncio
from collections.abc import Callable

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from gateway.database import Database
from gateway.errors import ApiError, Refusal, refuse
from gateway.schema.batches import NewBatch
from tenants.bulk import jobs
from tenants.files.disk import is_file_id, is_job_id, make_job_id
from tenants.models import BulkJob
from tenants.snapshot import Principal
from tracing import logs
from tracing.colour import Colour
from workers import bulk

log = logs.get(__name__)

MAX_EACH, MAX_WAITING = 8, 64

Keep = Callable[["asyncio.Task[object]"], None]


class Desk:
    """Made once a process."""

    def __init__(self, keep: Keep) -> None:
        """Nothing is taken in yet.

        Args:
            keep: keeps a task until it ends.
        """
        self._keep = keep
        self._database = Database(MAX_EACH, MAX_WAITING, Refusal.FILES_UNAVAILABLE)

    def close(self) -> None:
        """Take no more questions."""
        self._database.close()

    async def create(self, principal: Principal, new: NewBatch, colour: Colour, repeatable: tuple[str, str]) -> BulkJob:
        """Take a job in; its file is checked in the background.

        Args:
            principal: who calls.
            new: what he wants.
            colour: of his request.
            repeatable: digests of his idempotency key and of the body; empty ones for none.

        Raises:
            ApiError: 404 for its file, 422 for a key that came with another body, 429 for too many jobs, 503 if it
                cannot be written down.
        """
        if not is_file_id(new.input_file_id):
            raise _no_file(new.input_file_id)
        wanted = jobs.NewJob(
            public_id=make_job_id(),
            tenant_id=principal.tenant_id,
            key_id=principal.key_id,
            endpoint=new.endpoint,
            input_file_id=new.input_file_id,
            window=new.completion_window,
            window_s=new.window_s,
            metadata=new.metadata,
            output_lives_s=new.output_expires_after.seconds if new.output_expires_after else None,
            trace_id=colour.trace_id,
            parent_id=colour.parent_id,
            idempotency_key=repeatable[0],
            idempotency_body=repeatable[1],
        )
        try:
            job = await self._database.ask(principal.tenant_id, lambda: jobs.create_job(wanted))
        except jobs.NoSuchFile:
            raise _no_file(new.input_file_id) from None
        except jobs.KeyReused:
            raise refuse(Refusal.IDEMPOTENCY_KEY_REUSED) from None
        except jobs.TooManyJobs:
            raise refuse(
                Refusal.TOO_MANY_BATCHES,
                f"You have {jobs.MAX_OPEN_JOBS} batches that have not ended. Wait for one to end, or cancel one.",
            ) from None
        if job.public_id != wanted.public_id:
            return job
        log.info("bulk_job_made", job_id=job.public_id, tenant=principal.tenant)
        self._keep(asyncio.ensure_future(_ring(bulk.ring_check, job.public_id)))
        return job

    async def find(self, principal: Principal, job_id: str) -> BulkJob:
        """A job of the caller's tenant.

        Raises:
            ApiError: 404, 503.
        """
        _require_id(job_id)
        found = await self._database.ask(principal.tenant_id, lambda: jobs.find_job(principal.tenant_id, job_id))
        if found is None:
            raise _absent(job_id)
        return found

    async def listed(self, principal: Principal, after: str | None, count: int) -> list[BulkJob]:
        """Jobs of the caller's tenant, the newest first, from the one after ``after`` on.

        Raises:
            ApiError: 404, 503.
        """
        tenant_id = principal.tenant_id
        if after is not None:
            _require_id(after)
        found = await self._database.ask(tenant_id, lambda: jobs.list_jobs(tenant_id, after, count))
        if found is None:
            raise _absent(after or "")
        return found

    async def cancel(self, principal: Principal, job_id: str) -> BulkJob:
        """Have a job cancelled: what runs is ended, what has a result keeps it.

        Raises:
            ApiError: 404, 409 for one that has ended, 503.
        """
        tenant_id = principal.tenant_id
        _require_id(job_id)
        try:
            found = await self._database.ask(tenant_id, lambda: jobs.cancel_job(job_id, tenant_id))
        except jobs.JobEnded as ended:
            message = f"The batch cannot be cancelled: its status is '{ended.status}'."
            raise refuse(Refusal.BATCH_ENDED, message) from None
        if found is None:
            raise _absent(job_id)
        return found


def _require_id(job_id: str) -> None:
    if not is_job_id(job_id):
        raise _absent(job_id)


def _absent(job_id: str) -> ApiError:
    return refuse(Refusal.BATCH_NOT_FOUND, f"There is no batch '{job_id[:100]}'. GET /v1/batches lists yours.")


def _no_file(file_id: str) -> ApiError:
    message = f"There is no file '{file_id[:100]}' with the purpose 'batch'. Upload one at /v1/files."
    return refuse(Refusal.FILE_NOT_FOUND, message, param="input_file_id")


async def _ring(ring: Callable[[str], None], job_id: str) -> None:
    """Ring in a thread: the broker may be slow. If it is away, a bulk process finds the job all the same."""
    try:
        await asyncio.to_thread(ring, job_id)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("bulk_ring_failed", job_id=job_id, error=type(error).__name__)
