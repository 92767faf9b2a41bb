"""What recording every request costs: the same load with tracing full on and with tracing off, in turns.

Two instances on simulated engines that cost no time, each with one gateway and one worker, one after the other under
load while the other one idles. "on": every request is recorded with all its moments, engine steps are kept, a line of
JSON is written for each. "off": none of that. Streams of 8 tokens; 300 requests/s for what one request costs, and as
many as the machine takes for the throughput. CPU time is that of all processes of the instance.

``make bench ARGS="tracing_cost [--rounds 4] [--seconds 12]"``
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from bench.client import UNFINISHED, Call, HttpClient, closed_loop, open_loop
from bench.load import Result, median
from bench.report import RESULTS, table, write
from tests import stack
from tests.stack import Stack

MODEL = "smollm2-135m-instruct"
OPTIONS = ("--engine", "simulator", "--sim-profile", "zero", "--max-num-seqs", "64", "--no-flower")
OFF = {"SLUICE_TRACE_REQUESTS": "false", "SLUICE_ENGINE_STEPS": "false", "SLUICE_REQUEST_LOG_MIB": "0"}
ON = {"SLUICE_TRACE_SAMPLE": "1"}
RATE, CLIENTS, TOKENS = 300, 48, 8
GOAL = 0.95
FIGURES = ("requests_per_s", "cpu_ms", "ttft_p50", "ttft_p99")
NOTE = "Simulated engines without step times; the load generator shares the cores."

_numbers = count()


def calls(key: str, rate: float = 0.0) -> Iterator[Call]:
    """Requests without end, each with a prompt of its own."""
    for number in count():
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"cost {next(_numbers)}"}],
            "max_tokens": TOKENS,
            "stream": True,
        }
        yield Call(json.dumps(body).encode(), key, number / rate if rate else 0.0)


def cpu_s(product: Stack) -> float:
    """CPU seconds that the processes of an instance have used."""
    family = [psutil.Process(product.process.pid), *psutil.Process(product.process.pid).children(recursive=True)]
    times = [process.cpu_times() for process in family]
    return sum(one.user + one.system for one in times)


async def _load(product: Stack, key: str, rate: float, seconds: float) -> list[Any]:
    async with HttpClient(product.base_url) as client:
        if rate:
            return list(await open_loop(client.send, calls(key, rate), seconds))
        return list(await closed_loop(client.send, [calls(key)] * CLIENTS, seconds))


def measure(product: Stack, key: str, rate: float, seconds: float) -> Result:
    """One run: requests/s, and CPU ms for each."""
    before, started = cpu_s(product), time.monotonic()
    outcomes = asyncio.run(_load(product, key, rate, seconds))
    took_s = time.monotonic() - started
    failed = {one.error_code for one in outcomes if not one.is_ok} - {UNFINISHED}
    if failed:
        raise RuntimeError(f"requests failed: {sorted(failed)}")
    time.sleep(1.0)  # what is stored afterwards is part of the cost
    done = [one for one in outcomes if one.is_ok]
    ttfts = sorted(1000 * one.ttft_s for one in done if one.ttft_s is not None)
    return {
        "requests_per_s": len(done) / took_s,
        "cpu_ms": 1000 * (cpu_s(product) - before) / len(done),
        "ttft_p50": ttfts[len(ttfts) // 2],
        "ttft_p99": ttfts[int(0.99 * len(ttfts))],
    }


def main(arguments: list[str]) -> None:
    """Measure both in turns, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=12)
    options = parser.parse_args(arguments)
    runs: list[Result] = []
    with tempfile.TemporaryDirectory() as directory, ExitStack() as open_ones:
        products = {
            name: open_ones.enter_context(stack.start(Path(directory) / name, *OPTIONS, environ=environ))
            for name, environ in (("on", ON), ("off", OFF))
        }
        keys = {name: product.add_tenants({"bench": {}})["bench"] for name, product in products.items()}
        for name, product in products.items():
            measure(product, keys[name], RATE, 3)  # the first requests of each pay for what is done once
        for number in range(options.rounds):
            for load, rate in (("300 requests/s", float(RATE)), ("as many as it takes", 0.0)):
                for name in ("on", "off") if number % 2 == 0 else ("off", "on"):
                    run = measure(products[name], keys[name], rate, options.seconds)
                    runs.append({"load": load, "tracing": name, "round": number, **run})
                    print(f"  {load}, tracing {name}: {run}", file=sys.stderr)
    _record(runs, f"tracing_cost --rounds {options.rounds} --seconds {options.seconds:g}")


def _record(runs: list[Result], command: str) -> None:
    rows: list[dict[str, Any]] = []
    for load in dict.fromkeys(run["load"] for run in runs):
        of = {name: [run for run in runs if run["load"] == load and run["tracing"] == name] for name in ("on", "off")}
        for name, chosen in of.items():
            figures = {
                figure: median(chosen, figure) for figure in ("requests_per_s", "cpu_ms", "ttft_p50", "ttft_p99")
            }
            base = median(of["off"], "requests_per_s"), median(of["off"], "cpu_ms")
            rows.append(
                {
                    "load": load,
                    "tracing": name,
                    "requests/s": figures["requests_per_s"],
                    "times off": figures["requests_per_s"] / base[0],
                    "CPU ms a request": figures["cpu_ms"],
                    "CPU, times off": figures["cpu_ms"] / base[1],
                    "TTFT p50 ms": figures["ttft_p50"],
                    "TTFT p99 ms": figures["ttft_p99"],
                }
            )
    write("tracing_cost", f'make bench ARGS="{command}"', rows, runs)
    reached = [
        {"load": row["load"], "throughput, times off": row["times off"], "goal": f"at least {GOAL}",
         "met": "yes" if row["times off"] >= GOAL else "NO"}
        for row in rows
        if row["tracing"] == "on"
    ]  # fmt: skip
    with (RESULTS / "tracing_cost.md").open("a") as results:
        results.write(
            f"\n{table(reached)}\n\nSimulated engines without step times; the load generator shares the cores.\n"
        )
    print(table(reached))
