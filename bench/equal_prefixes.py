"""Whether it pays to hold requests with an equal prefix until the first of them has filled the KV cache.

One engine in this process (the configured one), eight requests with an equal prompt of about 700 tokens but for its
last words, a cold cache each time (a salt of its own). Sent all at once, or the first one alone and the others 20 ms
later, or after its first token. In turns, so that a slow phase of the machine hits all alike.

``make bench ARGS="equal_prefixes [--rounds 3]"``
"""

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import Any
from uuid import uuid4

from django.conf import settings

from bench.report import write
from workers.engines.factory import make_engine
from workers.engines.port import Engine, Job

REQUESTS = 8
TOKENS = 16
PREFIX = " ".join(f"On day {day} the keeper opened the gate for {day} boats." for day in range(1, 46))
ARMS = ("at once", "20 ms later", "after the first token")


def job(salt: str, number: int) -> Job:
    """Request ``number`` of those that share a prefix."""
    body = {"prompt": f"{PREFIX} Boat {number}", "max_tokens": TOKENS, "ignore_eos": True, "temperature": 0}
    return Job(str(uuid4()), "completions", json.dumps(body).encode(), stream=True, cache_salt=salt)


async def follow(engine: Engine, asked: Job, first: Callable[[], None]) -> dict[str, float]:
    """Run one job; calls ``first`` with its first frame. Times in s since the epoch of the event loop."""
    first_s = 0.0
    async with aclosing(engine.run(asked)) as frames:  # type: ignore[type-var]  # engines yield generators
        async for frame in frames:
            usage = frame.usage
            if not first_s:
                first_s = time.monotonic()
                first()
    return {"first_s": first_s, "cached": usage.cached_tokens, "prompt": usage.prompt_tokens}


async def measure(engine: Engine, arm: str) -> dict[str, Any]:
    """All requests of one arm, into a cold cache."""
    salt, answered = uuid4().hex, asyncio.Event()
    begun_s = time.monotonic()
    tasks = [asyncio.create_task(follow(engine, job(salt, 0), answered.set))]
    if arm == "20 ms later":
        await asyncio.sleep(0.02)
    elif arm == "after the first token":
        await answered.wait()
    tasks += [asyncio.create_task(follow(engine, job(salt, number), answered.set)) for number in range(1, REQUESTS)]
    found = await asyncio.gather(*tasks)
    firsts = sorted(answer["first_s"] - begun_s for answer in found)
    return {
        "arm": arm,
        "prompt_tokens": sum(answer["prompt"] for answer in found),
        "cached_tokens": sum(answer["cached"] for answer in found),
        "total_ms": 1000 * (time.monotonic() - begun_s),
        "ttft_min_ms": 1000 * firsts[0],
        "ttft_p50_ms": 1000 * firsts[len(firsts) // 2],
        "ttft_max_ms": 1000 * firsts[-1],
    }


async def measure_all(rounds: int) -> list[dict[str, Any]]:
    """Each arm once a round, in turns, after a round that warms the engine up and does not count."""
    engine = make_engine(dataclasses.replace(settings.SLUICE, max_model_len=2048))
    await engine.start()
    try:
        runs = []
        for number in range(rounds + 1):
            for arm in ARMS if number % 2 else ARMS[::-1]:
                run = await measure(engine, arm)
                print(f"  {run}", file=sys.stderr)
                runs += [run] if number else []
        return runs
    finally:
        await engine.stop()


def summarise(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each arm: medians."""
    rows = []
    for arm in ARMS:
        own = [run for run in runs if run["arm"] == arm]
        names = tuple(name for name in own[0] if name != "arm")
        rows.append({"others sent": arm, **{name: sorted(run[name] for run in own)[len(own) // 2] for name in names}})
    return rows


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    runs = asyncio.run(measure_all(options.rounds))
    write("equal_prefixes", f'make bench ARGS="equal_prefixes {" ".join(arguments)}"', summarise(runs), runs)


if __name__ == "__main__":
    main(sys.argv[1:])
