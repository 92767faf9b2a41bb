"""Loops end, also where a library takes a cancellation for an error of its own."""

import asyncio

from gateway.tasks import end_all


async def test_a_loop_that_once_hears_no_cancellation_ends_with_the_next() -> None:
    swallowed = 0

    async def loop() -> None:
        nonlocal swallowed
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if swallowed:
                    raise
                swallowed += 1

    tasks = [asyncio.create_task(loop()), asyncio.create_task(asyncio.sleep(60))]
    await asyncio.sleep(0)
    await end_all(tasks)

    assert swallowed == 1
    assert all(task.done() for task in tasks)


async def test_what_has_ended_already_is_not_waited_for() -> None:
    async def fail() -> None:
        raise ValueError

    task = asyncio.create_task(fail())
    await asyncio.wait([task])
    await end_all([task])
    assert isinstance(task.exception(), ValueError)
