"""The database, asked from a bulk process's event loop: on a thread of its own, whose connection stays open."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connections

AnswerT = TypeVar("AnswerT")

DATABASE_ERRORS = (DatabaseError, InterfaceError)


class Rows:
    """Asks one question after the other."""

    def __init__(self, name: str) -> None:
        """Nothing is asked yet; ``name`` is the thread's."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def ask(self, question: Callable[[], AnswerT]) -> AnswerT:
        """Run ``question`` and return what it returns.

        Raises:
            django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
        """
        return await asyncio.get_running_loop().run_in_executor(self._thread, _run, question)

    def close(self) -> None:
        """Take no more questions, and close the connection; blocks until the last one is answered."""
        self._thread.submit(connections.close_all)
        self._thread.shutdown()


def _run(question: Callable[[], AnswerT]) -> AnswerT:
    try:
        return question()
    except DATABASE_ERRORS:
        connections.close_all()  # the next question gets a new one
        raise
