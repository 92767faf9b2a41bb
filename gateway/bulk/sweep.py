"""Finds what nobody works on, and rings for it; and removes files whose time is over.

Every bulk process does it. What two find at once is rung for twice, and done once.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import islice

from django.utils import timezone
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from gateway.bulk.rows import DATABASE_ERRORS, Rows
from tenants.bulk import jobs, slices
from tenants.files import rows as files
from tenants.files.disk import FileDisk
from tracing import logs, metrics
from workers import bulk

log = logs.get(__name__)

LOOK_S = 2.0
PATIENCE_S = 10.0
"""A message is given so long to arrive."""
BUSY_PATIENCE_S = 600.0
"""Likewise while messages wait: then it is most likely one of them."""
CLEAN_S = 60.0
LEFT_S = 3600.0
"""What lies on the disk without a row for so long belongs to nobody: a file gets its row seconds after its last byte,
and no upload lasts longer than some minutes. So what a deleted tenant leaves goes by itself."""
LEFT_JOB_S = 60.0
"""The same for results of a job. Its row is there before them, so that this could be 0 but for clocks that differ."""
WALK_S = 600.0
"""So often the whole directory is looked at."""
AT_ONCE = 500

Queued = Callable[[], Awaitable[int]]


class Sweep:
    """Made once a process."""

    def __init__(self, rows: Rows, disk: FileDisk, queued: Queued) -> None:
        """Nothing is looked at yet.

        Args:
            rows: the database.
            disk: where files lie.
            queued: messages that wait; while there are any, one that seems lost may be one of them.
        """
        self._rows, self._disk, self._queued = rows, disk, queued
        self._cleaned_at = self._walked_at = float("-inf")

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except (*DATABASE_ERRORS, RedisError, OperationalError, OSError) as error:
                log.warning("bulk_sweep_failed", error=type(error).__name__)

    async def look(self) -> None:
        """Ring for what nobody works on; remove what is over.

        Raises:
            django.db.DatabaseError, django.db.InterfaceError, redis.exceptions.RedisError,
            kombu.exceptions.OperationalError, OSError: it could not be done now.
        """
        is_idle = not await self._queued()
        await self._rows.ask(lambda: _ring(is_idle=is_idle))
        for status, count in (await self._rows.ask(jobs.jobs_by_status)).items():
            metrics.bulk_jobs.labels(status).set(count)
        now = time.monotonic()
        if now - self._cleaned_at > CLEAN_S:
            self._cleaned_at = now
            await self._rows.ask(lambda: remove_expired(self._disk))
        if now - self._walked_at > WALK_S:
            self._walked_at = now
            await self._rows.ask(lambda: remove_left(self._disk))


def _ring(*, is_idle: bool) -> None:
    now, patience_s = timezone.now(), PATIENCE_S if is_idle else BUSY_PATIENCE_S
    for job_id in jobs.unchecked(now, patience_s):
        bulk.ring_check(job_id)
    died, waiting = now - timedelta(seconds=PATIENCE_S), now - timedelta(seconds=patience_s)
    for job_id, number in slices.lost_slices(now, rung_before=died, waiting_since=waiting):
        log.info("bulk_slice_rung_again", job_id=job_id, number=number)
        bulk.ring_slice(job_id, number)
    for job_id in jobs.ending(now):
        bulk.ring_finish(job_id)


def clean(disk: FileDisk) -> int:
    """Remove files whose time is over, and what lies on the disk and belongs to nobody; return how many files."""
    return remove_expired(disk) + remove_left(disk)


def remove_expired(disk: FileDisk) -> int:
    """Remove files whose time is over, ``AT_ONCE`` of them; and results of jobs that are there no more."""
    gone = files.expired_ids(timezone.now(), AT_ONCE)
    files.forget_files(gone)
    _remove(disk, gone)
    for job_id in jobs.unknown_jobs(list(disk.job_ids(LEFT_JOB_S))):
        disk.remove_job(job_id)
    return len(gone)


def remove_left(disk: FileDisk) -> int:
    """Remove what lies on the disk and belongs to nobody."""
    lying, found = disk.file_ids(LEFT_S), 0
    while some := list(islice(lying, AT_ONCE)):
        known = files.known_ids(some)
        unknown = [file_id for file_id in some if file_id not in known]
        _remove(disk, unknown)
        found += len(unknown)
    disk.remove_parts(LEFT_S)
    return found


def _remove(disk: FileDisk, file_ids: list[str]) -> None:
    for file_id in file_ids:
        disk.remove(file_id)
    if file_ids:
        log.info("files_removed", files=len(file_ids))
