"""Where the results of a chord's slices are kept until its body takes them."""

from typing import Any

from celery.backends.redis import RedisBackend
from celery.result import AsyncResult


class ChordResults(RedisBackend):
    """Celery's result backend over Redis, for processes that never wait for a result themselves.

    Celery subscribes whoever publishes a group or a chord to the results of its tasks, in case he should wait for them.
    Here nobody does, so nobody would read what comes, and of a chord nothing would ever be given up again.
    """

    def add_pending_result(
        self, result: AsyncResult[Any], weak: bool = False, start_drainer: bool = True
    ) -> AsyncResult[Any]:
        """Listen to nothing."""
        return result

    def remove_pending_result(self, result: AsyncResult[Any]) -> None:
        """There is nothing to give up."""

    def on_task_call(self, producer: Any, task_id: str) -> None:
        """Listen to nothing."""
