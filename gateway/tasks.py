"""Ends a process's own loops."""

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_S = 0.5


async def end_all(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel tasks and wait until they have ended, however they end.

    A library in the middle of a call may take a cancellation for an error of its own, and the loop above it goes on.
    So whoever still runs a moment later is cancelled again.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=AGAIN_S)
        await asyncio.gather(*done, return_exceptions=True)  # whatever one failed with has been seen
