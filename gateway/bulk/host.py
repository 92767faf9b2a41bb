"""One bulk process: a gateway's runtime on an event loop of its own, for Celery tasks that call from their threads."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

import uvloop
from celery.worker import state as celery_state
from redis.asyncio import Redis
from redis.exceptions import RedisError

from domain.bulk.pace import in_flight
from domain.bulk.status import JobStatus
from domain.config import Config
from gateway.bulk.byte_room import ByteRoom
from gateway.bulk.check import check_file
from gateway.bulk.finish import finish
from gateway.bulk.models import model_refusal
from gateway.bulk.permits import Permits
from gateway.bulk.rows import Rows
from gateway.bulk.sender import Sender
from gateway.bulk.slice_run import Place, SliceRun
from gateway.bulk.sweep import Sweep
from gateway.bulk.trace import export_job
from gateway.handler import DataPlane
from gateway.runtime import runtime
from tenants.bulk import jobs, slices
from tenants.files.disk import FileDisk
from tenants.models import BulkJob
from tracing import logs
from tracing.clock import now_us
from workers import bulk

log = logs.get(__name__)
T = TypeVar("T")

MIN_IN_FLIGHT = 8
STOP_S = 8.0
MIN_REST_S = 2.0
DAY_S = 86_400.0

_current: "Host | None" = None


def current() -> "Host":
    """The host of this process.

    Raises:
        RuntimeError: this process is not a bulk process.
    """
    if _current is None:
        raise RuntimeError("this process works off no bulk jobs")
    return _current


class Host:
    """Starts the runtime and stops it; checks files, runs slices and finishes jobs. Called from other threads.

    Attributes:
        is_stopping: no more slices are taken.
    """

    def __init__(self, config: Config) -> None:
        self._config, self._runtime = config, runtime()
        self._disk, self._rows = FileDisk(config.files_path), Rows("bulk-slices")
        self._permits = Permits(self._capacity)
        self._place = Place(self._rows, ByteRoom(), config.max_body_bytes, self._others_wait)
        self._plane = DataPlane()
        self._runtime.records.share_traces = True
        self._runs: set[SliceRun] = set()
        self.is_stopping = False
        self._loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bulk-loop", daemon=True)

    def start(self) -> None:
        """Load keys and engines, and begin to look for work that was left.

        Raises:
            django.db.DatabaseError, django.db.InterfaceError: nobody could be let in.
        """
        global _current
        self._thread.start()
        self._call(self._start())
        _current = self

    def stop(self) -> None:
        """Leave all slices, to be gone on with elsewhere, and end."""
        self.leave_slices()
        end = time.monotonic() + STOP_S
        while self._runs and time.monotonic() < end:
            time.sleep(0.05)
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def leave_slices(self) -> None:
        """Take no more of them and leave those under way; their tasks then end."""
        self.is_stopping = True
        self._loop.call_soon_threadsafe(self._leave_all)

    def _leave_all(self) -> None:
        for run in self._runs:
            run.leave()

    # --- what tasks ask for; in their threads ------------------------------------------------------------------------

    def check(self, job_id: str) -> str:
        """Check a job's file and let its slices begin; return what became of the job, "" if nothing.

        Raises:
            OSError: the file cannot be read, though it should be there; it is tried again.
        """
        job = jobs.hold_job(job_id, self._owner(), JobStatus.VALIDATING)
        if job is None:
            return ""
        try:
            checked = check_file(
                *(self._disk.path(job.input_file_id), job.endpoint, self._config.max_body_bytes),
                lambda model: model_refusal(job, model),
                lambda: _keep(job),
            )
        except FileNotFoundError:
            missing = {"code": "file_not_found", "line": None, "message": "The file is gone.", "param": "input_file_id"}
            return JobStatus.FAILED.value if jobs.refuse_job(job, [missing]) else ""
        if checked.errors:
            log.info("bulk_job_refused", job_id=job_id, errors=len(checked.errors), code=checked.errors[0]["code"])
            return JobStatus.FAILED.value if jobs.refuse_job(job, checked.errors) else ""
        if not jobs.begin_job(job, checked.model, checked.total, checked.cuts):
            return ""
        log.info("bulk_job_begun", job_id=job_id, requests=checked.total, slices=len(checked.cuts))
        bulk.ring_job(job_id, len(checked.cuts))
        return JobStatus.IN_PROGRESS.value

    def rest_s(self, job_id: str, number: int) -> float:
        """Seconds for which a slice had better not be begun, since its tenant's requests come back; 0 for none.

        So the batches of a tenant whose budget is used up hold none of the threads that others wait for.
        """
        tenant_id = slices.tenant_of(job_id, number)
        rest_s = self._permits.rest_s(tenant_id) if tenant_id is not None else 0.0
        if rest_s < MIN_REST_S:
            return 0.0
        slices.rest_slice(job_id, number, rest_s)
        return rest_s

    def run_slice(self, job_id: str, number: int) -> bool | None:
        """Work a slice off until it is done or its turn is over; return whether it is done, None if it was not to be
        had, or was erased.

        Raises:
            OSError: its file, or the disk for its results, is not there.
        """
        if self.is_stopping:
            return None
        piece = slices.take_slice(job_id, number, self._owner())
        if piece is None:
            return None
        sender = Sender(piece.job, self._plane, self._permits, self._runtime.snapshot)
        try:
            directory = self._disk.make_job_directory(job_id)
            run = SliceRun(piece, sender, self._place, self._disk.path(piece.job.input_file_id), directory)
            return self._call(self._run(run))
        except OSError:
            if jobs.is_there(job_id):
                raise
            return None
        finally:
            # Whoever erases a job removes its results; what was written since is removed by whoever wrote it.
            if not jobs.is_there(job_id):
                self._disk.remove_job(job_id)

    def finish(self, job_id: str) -> str:
        """Put a job's results together, if it is to end; return how it ended, "" if it is not to.

        Raises:
            OSError: the disk does not take them; it is tried again.
        """
        found = jobs.hold_to_end(job_id, self._owner())
        if found is None:
            return ""
        job, end = found
        lives_s = job.output_lives_s or self._config.files_days * DAY_S
        done = finish(job, end, self._disk, self._config.max_body_bytes, timedelta(seconds=lives_s))
        self._disk.remove_job(job_id)
        if done is None:
            return ""
        log.info("bulk_job_ended", job_id=job_id, status=end.value, **done.counts)
        export_job(job, end.value, now_us(), job.total, done.counts["failed"])
        return end.value

    # --- on the loop -------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        await self._runtime.start()
        self._broker = Redis.from_url(self._config.broker_url, socket_timeout=5, socket_connect_timeout=2)
        self._sweep_rows = Rows("bulk-sweep")  # which may be slow, and leases are not to wait for it
        sweep = Sweep(self._sweep_rows, self._disk, self._queued)
        self._sweeping = asyncio.create_task(sweep.run())

    async def _stop(self) -> None:
        self._sweeping.cancel()
        await self._runtime.stop()
        await self._broker.aclose()
        self._sweep_rows.close()
        self._rows.close()

    async def _run(self, run: SliceRun) -> bool:
        self._runs.add(run)
        try:
            return await run.run()
        finally:
            self._runs.discard(run)

    def _owner(self) -> str:
        return self._runtime.gateway_id

    def _capacity(self) -> int:
        """Requests that may be under way: those that run, and some that wait for the next free seat."""
        if self._config.bulk_in_flight:
            return self._config.bulk_in_flight
        seats = [worker.max_num_seqs for worker in self._runtime.workers if worker.ready]
        return max(MIN_IN_FLIGHT, sum(in_flight(number) for number in seats))

    async def _queued(self) -> int:
        """Messages that wait for a bulk process.

        Raises:
            redis.exceptions.RedisError, OSError: the broker does not answer.
        """
        return await self._broker.llen(bulk.QUEUE)

    async def _others_wait(self) -> bool:
        """Whether a task waits for a thread, of this process or of any."""
        if len(celery_state.reserved_requests) > len(celery_state.active_requests):
            return True
        try:
            return await self._queued() > 0
        except (RedisError, OSError):
            return False

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _keep(job: BulkJob) -> None:
    """Hold a job on, while its file is read."""
    jobs.hold_job(job.public_id, job.held_by, JobStatus.VALIDATING)
