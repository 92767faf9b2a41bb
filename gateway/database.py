"""The database, asked from the event loop: few threads, few questions at once, and a bound on how long anybody waits.

Requests to models never come here, so a slow or absent database holds nobody up but those who ask it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connection, connections

from gateway.errors import Refusal, refuse
from tracing import logs

log = logs.get(__name__)

THREADS = 2
MAX_WAITING = 16
MAX_EACH = 2
PATIENCE_S = 5.0

AnswerT = TypeVar("AnswerT")


class Database:
    """Answers questions of tenants; what it is asked runs in a thread, on a connection that is closed after it."""

    def __init__(
        self,
        max_each: int = MAX_EACH,
        max_waiting: int = MAX_WAITING,
        unavailable: Refusal = Refusal.USAGE_UNAVAILABLE,
    ) -> None:
        """Nothing is asked yet.

        Args:
            max_each: questions of one tenant at once; ``max_waiting`` of all.
            unavailable: the refusal of whoever gets no answer.
        """
        self._max_each, self._max_waiting, self._unavailable = max_each, max_waiting, unavailable
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="database")
        self._asking: Counter[int] = Counter()

    async def ask(self, tenant_id: int, question: Callable[[], AnswerT]) -> AnswerT:
        """Run ``question`` for a tenant and return what it returns.

        Raises:
            ApiError: 503: the database does not answer, or not in time, or too much is asked of it.
        """
        if self._asking[tenant_id] >= self._max_each or self._asking.total() >= self._max_waiting:
            raise refuse(self._unavailable, "Too much is asked at once. Wait for an answer, then ask again.")
        self._asking[tenant_id] += 1
        work = asyncio.get_running_loop().run_in_executor(self._threads, _run, question)
        # The thread cannot be interrupted: it counts until it is done, whoever has stopped waiting for it.
        work.add_done_callback(lambda done: self._done(tenant_id, done))
        try:
            return await asyncio.wait_for(asyncio.shield(work), PATIENCE_S)
        except (DatabaseError, InterfaceError, TimeoutError) as error:
            log.warning("database_not_asked", error=str(error) or type(error).__name__)
            raise refuse(self._unavailable) from error

    def close(self) -> None:
        """Take no more questions; those under way end by themselves."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _done(self, tenant_id: int, work: "asyncio.Future[AnswerT]") -> None:
        self._asking -= Counter([tenant_id])
        if not work.cancelled():
            work.exception()  # looked at, also when nobody waits any more


def _run(question: Callable[[], AnswerT]) -> AnswerT:
    try:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET statement_timeout = {int(PATIENCE_S * 1000)}")
        return question()
    finally:
        connections.close_all()
