"""Affinity: equal prefixes meet the warm KV cache, without one engine getting all the work.

Simulated engines (Llama-3.1-8B on an H100, whose KV cache holds a small part of a trace) replay whole conversations of
Mooncake's traces at their real lengths, faster than they came; answers are cut to 128 tokens. With
``SLUICE_AFFINITY=true`` a worker prefers requests whose prefix it has served, with ``false`` whoever has room takes
what is next. Two loads: "paced" keeps the arrivals of the trace, compressed; "saturated" always has requests waiting.
Spread of utilisation is the standard deviation over workers of the share of their sequences in use, in percentage
points.

Four engines by default: with two, chance alone finds half of what was cached. In a model of LRU caches of this size,
always taking the engine that holds most of the prefix gives 1.5 times the hit rate of chance with two engines, and 2.0
to 2.2 times with four.

Then one hot prefix at three times what the engines can run at once: affinity must not pile it onto one of them.

``make bench ARGS="affinity [--workers 4]"``
"""

import argparse
import asyncio
import math
import statistics
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, cast

import orjson
from matplotlib.figure import Figure

from bench.client import Call, HttpClient, Outcome, closed_loop, open_loop
from bench.picture import save
from bench.quantile import quantile
from bench.report import RESULTS, write
from bench.usage import Served, hit_rate, served
from bench.workloads import chat_body, filler, mooncake
from bench.workloads.mooncake import Request
from tests import stack
from tests.stack import Stack

MODEL = "smollm2-135m-instruct"
PROFILE = "h100-llama-3.1-8b"
MAX_NUM_SEQS = 16
MAX_ANSWER_TOKENS = 128
# Seconds in which four engines replay a trace at about three quarters of what they can do.
PACED_S = {"conversation": 22.0, "synthetic": 26.0}
PACED_WORKERS = 4
LOADS = ("paced", "saturated")
SAMPLE_S = 0.5
BOUND_S = 120.0
HIT_GOAL, THROUGHPUT_GOAL, SPREAD_GOAL = 1.5, 1.0, 8.1
# Times what the engines can run at once: there is always something to choose from.
SATURATED_TIMES_CAPACITY = 2
HOT_PREFIX_TOKENS, HOT_TAIL_TOKENS, HOT_ANSWER_TOKENS = 4_096, 256, 32
HOT_S = 15.0
HOT_TIMES_CAPACITY = 3
HOT_RATIO_GOAL = 1.5
ENVIRON = {"SLUICE_MAX_MODEL_LEN": "65536", "SLUICE_MAX_NUM_SEQS": str(MAX_NUM_SEQS)}


@dataclass(frozen=True, slots=True)
class Replay:
    """One load on one instance.

    Attributes:
        rows: what was served.
        outcomes: what the client saw.
        busy: for each worker the share of its sequences in use, one value a sample, while the load lasted.
    """

    rows: Sequence[Served]
    outcomes: Sequence[Outcome]
    busy: Mapping[str, Sequence[float]]


def spread(busy: Mapping[str, Sequence[float]]) -> float:
    """Standard deviation over workers of their mean utilisation, in percentage points."""
    return 100 * statistics.pstdev(statistics.fmean(samples) for samples in busy.values())


def utilisation(busy: Mapping[str, Sequence[float]]) -> float:
    """Mean over workers and time, in percent."""
    return 100 * statistics.fmean(statistics.fmean(samples) for samples in busy.values())


def load_ratio(rows: Iterable[Served], workers: int) -> float:
    """Requests of the busiest of so many workers over those of the least busy one; infinite if one had none."""
    counts = Counter(row.worker for row in rows)
    return max(counts.values()) / min(counts.values()) if len(counts) == workers else math.inf


def tokens_per_s(rows: Sequence[Served]) -> float:
    """Tokens of prompts and answers, cached ones too, a second from the first arrival to the last end."""
    tokens = sum(row.prompt_tokens + row.completion_tokens for row in rows)
    return tokens / (max(row.finished_s for row in rows) - min(row.admitted_s for row in rows))


def replay_calls(requests: Sequence[Request], salt: str, key: str, seconds: float) -> list[Call]:
    """The requests of a trace, due within ``seconds`` in the trace's proportions."""
    scale = seconds / (requests[-1].timestamp - requests[0].timestamp)
    calls = []
    for request in requests:
        answer = min(request.output_length, MAX_ANSWER_TOKENS)
        body = chat_body(MODEL, mooncake.prompt(request, salt), answer, stream=True)
        calls.append(Call(orjson.dumps(body), key, (request.timestamp - requests[0].timestamp) * scale))
    return calls


def hot_calls(key: str) -> Iterator[Call]:
    """Requests without end that share one long prefix."""
    prefix = filler("hot", HOT_PREFIX_TOKENS)
    for number in count():
        text = prefix + filler(f"cold-{number}", HOT_TAIL_TOKENS)
        yield Call(orjson.dumps(chat_body(MODEL, text, HOT_ANSWER_TOKENS)), key)


async def watch(running: Stack, busy: dict[str, list[float]]) -> None:
    """Read twice a second how many of its sequences each worker runs, until cancelled."""
    store = running.store()
    workers = worker_ids(running)
    while True:
        for worker in workers:
            seqs = await asyncio.to_thread(store.hget, f"sl:worker:{worker}", "running")
            busy[worker].append(int(seqs or 0) / MAX_NUM_SEQS)
        await asyncio.sleep(SAMPLE_S)


def worker_ids(running: Stack) -> list[str]:
    """Names of the workers that live."""
    names = cast("set[bytes]", running.store().smembers("sl:workers"))
    return sorted(name.decode() for name in names)


async def replay(
    running: Stack, calls: Sequence[Call], load: str, seconds: float
) -> tuple[list[Outcome], dict[str, list[float]]]:
    """Put one load on; utilisation is watched until the last request was sent."""
    busy: dict[str, list[float]] = defaultdict(list)
    sent = asyncio.Event()

    def each() -> Iterator[Call]:
        yield from calls
        sent.set()

    async with HttpClient(running.base_url) as client:
        watcher = asyncio.create_task(watch(running, busy))
        if load == "paced":
            running_load = asyncio.create_task(open_loop(client.send, each(), seconds + BOUND_S))
        else:
            stream = each()
            clients = SATURATED_TIMES_CAPACITY * MAX_NUM_SEQS * len(worker_ids(running))
            running_load = asyncio.create_task(closed_loop(client.send, [stream] * clients, BOUND_S))
        await sent.wait()
        watcher.cancel()
        return await running_load, dict(busy)


def measure(running: Stack, key: str, trace: str, load: str, seconds: float) -> Replay:
    """One trace under one load."""
    calls = replay_calls(mooncake.load(trace), f"{trace}-{load}", key, seconds)
    began_s = time.time()
    outcomes, busy = asyncio.run(replay(running, calls, load, seconds))
    return Replay(served(running, began_s), outcomes, busy)


def measure_hot_prefix(running: Stack, key: str, workers: int) -> list[Served]:
    """One prefix in all requests, three times as many as the engines can run at once."""

    async def put_load() -> None:
        async with HttpClient(running.base_url) as client:
            stream = hot_calls(key)
            clients = HOT_TIMES_CAPACITY * workers * MAX_NUM_SEQS
            await closed_loop(client.send, [stream] * clients, HOT_S)

    began_s = time.time()
    asyncio.run(put_load())
    return served(running, began_s)


def describe(found: Replay, trace: str, load: str, affinity: bool) -> dict[str, Any]:
    """A row of the table."""
    ttfts_s = [outcome.ttft_s for outcome in found.outcomes if outcome.ttft_s is not None]
    return {
        "trace (simulated engines)": trace,
        "load": load,
        "affinity": affinity,
        "answered": sum(outcome.is_ok for outcome in found.outcomes),
        "of": len(found.outcomes),
        "prefix hit rate": hit_rate(found.rows),
        "best possible": mooncake.best_hit_rate(mooncake.load(trace)),
        "tokens/s": tokens_per_s(found.rows),
        "TTFT p50 ms": 1000 * quantile(ttfts_s, 0.5),
        "TTFT p99 ms": 1000 * quantile(ttfts_s, 0.99),
        "utilisation %": utilisation(found.busy),
        "spread of utilisation, points": spread(found.busy),
    }


def compare(
    rows: Sequence[Mapping[str, Any]], hot: Mapping[bool, Sequence[Served]], workers: int
) -> list[dict[str, Any]]:
    """Affinity against none, by trace and load; then the hot prefix."""
    table = []
    for trace in PACED_S:
        for load in LOADS:
            off, on = (
                next(
                    row
                    for row in rows
                    if (row["trace (simulated engines)"], row["load"], row["affinity"]) == (trace, load, way)
                )
                for way in (False, True)
            )
            hits, speed = on["prefix hit rate"] / off["prefix hit rate"], on["tokens/s"] / off["tokens/s"]
            apart = on["spread of utilisation, points"]
            what = f"{trace}, {load}"
            # Arrivals set the throughput of a paced load: it can only be kept.
            least = THROUGHPUT_GOAL if load == "saturated" else 0.98
            table += [
                _figure(f"{what}: prefix hit rate, times none", hits, f">= {HIT_GOAL}", hits >= HIT_GOAL),
                _figure(f"{what}: throughput, times none", speed, f">= {least}", speed >= least),
                _figure(f"{what}: spread of utilisation, points", apart, f"<= {SPREAD_GOAL}", apart <= SPREAD_GOAL),
            ]
    for way, served_rows in hot.items():
        ratio = load_ratio(served_rows, workers)
        name = f"one hot prefix, affinity {way}: requests of busiest : least busy worker"
        table.append(_figure(name, ratio, f"<= {HOT_RATIO_GOAL}", ratio <= HOT_RATIO_GOAL))
    return table


def _figure(name: str, value: float, goal: str, met: bool) -> dict[str, Any]:
    return {"figure (simulated engines)": name, "measured": value, "goal": goal, "met": met}


def run_way(
    directory: Path, affinity: bool, workers: int
) -> tuple[list[dict[str, Any]], dict[str, Replay], list[Served]]:
    """All loads on one instance with or without affinity."""
    options = ("--engine", "simulator", "--sim-profile", PROFILE, "--no-flower", "--workers", str(workers))
    environ = {**ENVIRON, "SLUICE_AFFINITY": str(affinity).lower()}
    rows, replays = [], {}
    with stack.start(directory / f"data-{affinity}", *options, environ=environ) as running:
        key = running.add_tenants({"bench": {}})["bench"]
        for trace, paced_s in PACED_S.items():
            for load in LOADS:
                seconds = paced_s * PACED_WORKERS / workers
                found = replays[f"{trace}, {load}"] = measure(running, key, trace, load, seconds)
                rows.append(describe(found, trace, load, affinity))
                print(f"  {rows[-1]}", file=sys.stderr)
        return rows, replays, measure_hot_prefix(running, key, workers)


def plot(ways: Mapping[bool, Mapping[str, Replay]], path: Path) -> None:
    """Utilisation of each worker over time: a row for each load, without and with affinity."""
    names = list(ways[True])
    figure = Figure(figsize=(10, 2.2 * len(names)), layout="constrained")
    panels = figure.subplots(len(names), 2, sharey=True)
    for column, way in enumerate((False, True)):
        for line, name in enumerate(names):
            axes, found = panels[line][column], ways[way][name]
            for worker, samples in found.busy.items():
                axes.plot(
                    [SAMPLE_S * index for index in range(len(samples))], [100 * one for one in samples], label=worker
                )
            hits = 100 * hit_rate(found.rows)
            axes.set_title(
                f"{name}, {'affinity' if way else 'no affinity'}: {hits:.0f} % of prompt tokens cached", fontsize=8
            )
    panels[0][0].legend(fontsize=7)
    figure.supylabel("sequences in use, %")
    figure.supxlabel("s")
    figure.suptitle(f"Simulated engines ({PROFILE}) on Mooncake's traces")
    save(figure, path)


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=PACED_WORKERS)
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    ways: dict[bool, dict[str, Replay]] = {}
    hot: dict[bool, list[Served]] = {}
    with tempfile.TemporaryDirectory() as name:
        for way in (False, True):
            more, ways[way], hot[way] = run_way(Path(name), way, options.workers)
            rows += more
    name = "affinity" if options.workers == PACED_WORKERS else f"affinity_{options.workers}_workers"
    command = f'make bench ARGS="affinity --workers {options.workers}"'
    write(name, command, compare(rows, hot, options.workers), rows)
    write(f"{name}_loads", command, rows, rows)
    plot(ways, RESULTS / f"{name}.svg")
