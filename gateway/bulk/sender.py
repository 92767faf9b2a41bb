"""Sends the requests of one job, again where that helps, for whom the job was made."""

import asyncio
import time
from dataclasses import dataclass, replace

from domain.bulk.again import UNAVAILABLE, UNLUCKY, wait_s
from domain.bulk.line import BulkLine
from domain.bulk.pace import MAX_WINDOW, most_at_once
from domain.limits import Limit
from domain.qos import QosClass
from gateway.bulk.call import Answered, Call, Plane
from gateway.bulk.models import principal_of
from gateway.bulk.permits import Permits
from gateway.bulk.trace import job_traceparent
from gateway.errors import key_refused
from gateway.stale import Keeper
from tenants.models import BulkJob
from tenants.snapshot import KeyRefused, Principal
from tracing import metrics


@dataclass(slots=True)
class Tried:
    """How often a request was sent, and how often something broke under it."""

    times: int = 0
    unlucky: int = 0


class Sender:
    """Made for one slice. Use from one event loop."""

    def __init__(self, job: BulkJob, plane: Plane, permits: Permits, snapshot: Keeper) -> None:
        """Nothing is sent yet.

        Args:
            job: whose requests, with its key.
            plane: takes them.
            permits: says when.
            snapshot: says whom the key stands for.
        """
        self._job, self._plane, self._permits, self._snapshot = job, plane, permits, snapshot
        self._traceparent = job_traceparent(job.public_id, job.trace_id)
        self._calls: set[Call] = set()
        self._stopping, self._leaving = asyncio.Event(), False

    @property
    def waits_for(self) -> str:
        """Why requests of the job's tenant are not taken at present; "" while they are."""
        return self._permits.waits_for(self._job.tenant_id)

    @property
    def is_going(self) -> bool:
        """It was not stopped."""
        return not self._stopping.is_set()

    def stop(self) -> None:
        """Send nothing more; what is under way ends by itself."""
        self._stopping.set()

    def leave(self) -> None:
        """Send nothing more, and end what is under way."""
        self.stop()
        self._leaving = True
        for call in self._calls:
            call.leave()

    async def answer(self, line: BulkLine) -> Answered | None:
        """Send a request until its answer stands; None if it was stopped before."""
        tried = Tried()
        while not self._stopping.is_set():
            answered, sent_at = await self._send(line)
            if answered is None or (self._leaving and answered.status not in range(200, 400)):
                return None
            tried.times += 1
            tried.unlucky += answered.status in UNLUCKY
            again_s = wait_s(
                answered.status,
                answered.retry_after_s,
                tried.times,
                tried.unlucky,
                asked_not_to=answered.asks_not_to_retry,
            )
            if again_s is None:
                return answered
            await self._wait(answered, sent_at, again_s)
        return None

    async def _wait(self, answered: Answered, sent_at_s: float, again_s: float) -> None:
        """Wait, all of the tenant's requests with this one where it is the gateway that has no room."""
        metrics.bulk_retries.labels(answered.reason or str(answered.status)).inc()
        if answered.status in UNAVAILABLE:
            self._permits.refused(self._job.tenant_id, sent_at_s, again_s, answered.reason)
            return
        try:
            async with asyncio.timeout(again_s):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _send(self, line: BulkLine) -> tuple[Answered | None, float]:
        """Send it once; None if it was stopped before its turn came. And when it was sent, by the monotonic clock."""
        tenant_id = self._job.tenant_id
        try:
            if not await self._turn(tenant_id, _most_at_once(self._principal())):
                return None, 0.0
            try:
                # Asked anew: turns may come hours later.
                return await self._call(line, self._principal())
            finally:
                self._permits.give(tenant_id)
        except KeyRefused as refused:
            return _refused(refused), 0.0

    async def _call(self, line: BulkLine, principal: Principal) -> tuple[Answered, float]:
        sent_at_s = time.monotonic()
        call = Call(self._plane, self._job.endpoint, line.body, self._traceparent, principal)
        self._calls.add(call)
        try:
            answered = await call.answer()
        finally:
            self._calls.discard(call)
        if answered.status < 400:
            self._permits.answered(principal.tenant_id, answered.headers, sent_at_s)
        return answered, sent_at_s

    async def _turn(self, tenant_id: int, most: int) -> bool:
        """Wait for a permit; False, and none is held, if it was stopped before."""
        taking = asyncio.ensure_future(self._permits.take(tenant_id, most))
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({taking, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            taking.cancel()
        if not self._stopping.is_set():
            return True
        if taking.done() and not taking.cancelled():
            self._permits.give(tenant_id)
        return False

    def _principal(self) -> Principal:
        """Whom the job's key stands for now: a key that was revoked stops its jobs too.

        Raises:
            KeyRefused: it stands for nobody any more.
        """
        found = principal_of(self._job, self._snapshot.current)
        # Where it was called from was checked when the job was made. Of requests at once the store counts those of all
        # processes, and of users, so that users find the rest of the limit free.
        limits = tuple(limit._replace(cap=_bulk_cap(limit)) for limit in found.limits)
        return replace(found, best_class=QosClass.P2, allowed_addresses=(), limits=limits)


def _bulk_cap(limit: Limit) -> int:
    return most_at_once((limit.cap,)) if limit.name == "max_concurrent" else limit.cap


def _most_at_once(principal: Principal) -> int:
    return min((limit.cap for limit in principal.limits if limit.name == "max_concurrent"), default=int(MAX_WINDOW))


def _refused(why: KeyRefused) -> Answered:
    error = key_refused(why.reason)
    return Answered(error.status, {}, error.body())
