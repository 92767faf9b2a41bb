"""What batching gains: five ways to bring the same requests to the same engine, under the same load, in turns.

    one at a time   the next request starts when the one before has ended
    static batches  a window of 50 ms or one engine full, run until all its answers are done, then the next
    naive window    the same window in front of the engine's continuous batching
    Sluice          the product over HTTP, with all that it costs
    direct          the engine's continuous batching with nothing in front: the reference

All but Sluice call the engine in this process; Sluice's engine has the same settings in a process of its own.

``make bench ARGS="batching [--engine simulator|vllm|both] [--dtype bfloat16] [--rounds 3] [--seconds 20]"``
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, fields, replace
from itertools import count, islice
from math import log
from pathlib import Path
from typing import Any

import psutil
import uvloop

from bench import arms
from bench.client import UNFINISHED, Call, Outcome, Send, closed_loop, open_loop
from bench.load import Result, median
from bench.report import RESULTS, table, write
from domain.config import Config
from domain.simulation.answers import words
from tests import stack
from workers.engines.factory import make_engine
from workers.engines.port import Engine

ALONE, STATIC, NAIVE, SLUICE, DIRECT = "one at a time", "static batches", "naive window", "Sluice", "direct"
ALL = (ALONE, STATIC, NAIVE, SLUICE, DIRECT)
NEAR = (NAIVE, SLUICE, DIRECT)
HALF, FIFTH = "simulated 7B, half of direct's capacity", "simulated 7B, a fifth of direct's capacity"
WINDOW_S = 0.05
PROMPT_BYTES = 235
"""With the marks of its roles, 64 tokens for the simulator."""

SETTLE_S = WARM_UP_S = 60.0
"""Bounds, not times that are waited for."""


@dataclass(frozen=True, slots=True)
class Lengths:
    """Output tokens of the requests: geometric around ``mean``, or even between bounds; at most ``most``."""

    mean: float
    most: int
    least: int = 0

    def draw(self, dice: random.Random) -> int:
        """The next one."""
        if self.least:
            return dice.randint(self.least, self.most)
        return min(self.most, 1 + int(log(1.0 - dice.random()) / log(1.0 - 1.0 / self.mean)))


@dataclass(frozen=True, slots=True)
class Load:
    """One load.

    Attributes:
        name: for the table.
        ways: which arms run under it.
        lengths: of the answers.
        clients: of a closed loop; 0 for an open one.
        rate: requests/s of an open loop; 0 to take ``share`` of what the direct arm reached in the group's first load.
        share: see ``rate``.
        stretch: its runs take so many times ``--seconds``: a batch on the real engine takes half a minute.
    """

    name: str
    ways: tuple[str, ...]
    lengths: Lengths
    clients: int = 0
    rate: float = 0.0
    share: float = 0.0
    stretch: float = 1.0


@dataclass(frozen=True, slots=True)
class Group:
    """Loads on one engine; ``config`` holds for the engine in this process and for the product's alike."""

    name: str
    config: Config
    loads: tuple[Load, ...]


_SHORT = Lengths(mean=8, most=40)
_LONG = Lengths(mean=64, least=48, most=80)

SIMULATED = (
    Group(
        "a100-qwen2-7b",
        Config(engine="simulator", sim_profile="a100-qwen2-7b", max_num_seqs=64, probe_interval_s=0),
        (
            Load("simulated 7B, closed loop of 120", ALL, _SHORT, clients=120),
            Load(HALF, NEAR, _SHORT, share=0.5),
            Load(FIFTH, NEAR, _SHORT, share=0.2),
        ),
    ),
    Group(
        "h100x4-llama-3-70b",
        Config(engine="simulator", sim_profile="h100x4-llama-3-70b", max_num_seqs=64, probe_interval_s=0),
        (Load("simulated 70B, open loop of 120/s", ALL, _SHORT, rate=120),),
    ),
)
REAL = (
    Group(
        "vllm",
        Config(engine="vllm", max_num_seqs=64, probe_interval_s=0),
        (
            Load("vLLM, closed loop of 32", ALL, _LONG, clients=32, stretch=2),
            Load("vLLM, closed loop of 64", (ALONE, SLUICE, DIRECT), _LONG, clients=64, stretch=4),
        ),
    ),
)
GROUPS = {"simulator": SIMULATED, "vllm": REAL, "both": SIMULATED + REAL}


class Requests:
    """An endless row of calls, the same for every arm of a load and round; no two prompts are equal."""

    def __init__(self, load: Load, round_number: int, model: str, key: str, rate: float = 0.0) -> None:
        self._lengths, self._model, self._key, self._rate = load.lengths, model, key, rate
        self._name = f"{load.name} {round_number}"

    def __iter__(self) -> Iterator[Call]:
        dice = random.Random(self._name)
        at_s = 0.0
        for number in count():
            at_s += dice.expovariate(self._rate) if self._rate else 0.0
            yield Call(self._body(number, self._lengths.draw(dice)), self._key, at_s)

    def _body(self, number: int, tokens: int) -> bytes:
        text = f"{number} {self._name} {''.join(words(f'{self._name}/{number}'.encode(), PROMPT_BYTES))}"
        body = {
            "model": self._model,
            "messages": [{"role": "user", "content": text[:PROMPT_BYTES]}],
            "max_tokens": tokens,
            "min_tokens": tokens,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return json.dumps(body).encode()


@dataclass(frozen=True, slots=True)
class Ground:
    """What the arms run on: the engine in this process, and the product with a tenant that has no limits."""

    group: Group
    engine: Engine
    product: stack.Stack
    key: str

    def arm(self, name: str) -> AbstractAsyncContextManager[Send]:
        """The arm of that name, fresh."""
        size = self.group.config.max_num_seqs
        if name == SLUICE:
            return arms.product(self.product.base_url)
        if name == ALONE:
            return arms.one_at_a_time(self.engine)
        if name == DIRECT:
            return arms.direct(self.engine)
        make = arms.static_batches if name == STATIC else arms.naive_window
        return make(self.engine, size, WINDOW_S)

    async def settle(self) -> None:
        """Wait until nothing of the last run is left anywhere."""
        await asyncio.to_thread(stack.wait_until, self._is_idle, SETTLE_S, "the last run never ended")

    def _is_idle(self) -> bool:
        room = self.engine.room()
        return room.free_seqs == room.max_num_seqs and not self.product.leftovers()


async def measure(ground: Ground, rounds: int, seconds: float) -> list[Result]:
    """All loads on all their arms, in turns, each round in the other direction."""
    await _warm_up(ground)
    runs: list[Result] = []
    for number in range(rounds):
        for load in ground.group.loads:
            rate = load.rate or load.share * _capacity(runs)
            for way in load.ways if number % 2 == 0 else load.ways[::-1]:
                requests = Requests(load, number, ground.group.config.model_name, ground.key, rate)
                run = await _run(ground, way, load, requests, seconds * load.stretch)
                runs.append({"load": load.name, "arm": way, "round": number, "rate": rate or None, **run})
                print(f"  {load.name}, {way}: {_brief(run)}", file=sys.stderr)
    return runs


async def _warm_up(ground: Ground) -> None:
    """Fill the engine here and the product's once, so that no arm pays for what is done only the first time."""
    for way in (DIRECT, SLUICE):
        clients = ground.group.config.max_num_seqs
        load = Load("warm up", (way,), Lengths(mean=2, most=4), clients=clients)
        requests = Requests(load, 0, ground.group.config.model_name, ground.key)
        async with ground.arm(way) as send:
            await closed_loop(send, [islice(requests, clients)] * clients, WARM_UP_S)


async def _run(ground: Ground, way: str, load: Load, requests: Requests, duration_s: float) -> Result:
    await ground.settle()
    busy_s = _busy_s()
    async with ground.arm(way) as send:
        if load.clients:
            outcomes = await closed_loop(send, [iter(requests)] * load.clients, duration_s)
        else:
            outcomes = await open_loop(send, requests, duration_s)
    return {**figures(outcomes, duration_s), "busy_cores": (_busy_s() - busy_s) / duration_s}


def figures(outcomes: Sequence[Outcome], duration_s: float) -> Result:
    """Rates and percentiles of one run; times in ms, of the requests that were completed.

    requests/s are counted up to the last completion, tokens/s over the whole run with those of unfinished answers:
    the end of the run cuts nothing off that an arm has done.

    Raises:
        RuntimeError: requests failed, or none was completed.
    """
    failed = [outcome.error_code for outcome in outcomes if not outcome.is_ok and outcome.error_code != UNFINISHED]
    done = [outcome for outcome in outcomes if outcome.is_ok]
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(outcomes)} requests failed: {sorted(set(failed))[:5]}")
    if not done:
        raise RuntimeError(f"nothing was completed within {duration_s:g} s: give it more --seconds")
    latencies = sorted(outcome.latency_s * 1000 for outcome in done)
    ttfts = sorted(outcome.ttft_s * 1000 for outcome in done if outcome.ttft_s is not None)
    return {
        "duration_s": duration_s,
        "completed": len(done),
        "unfinished": len(outcomes) - len(done),
        "requests_per_s": len(done) / max(outcome.ended_s for outcome in done),
        "tokens_per_s": sum(outcome.tokens for outcome in outcomes) / duration_s,
        "p50": percentile(latencies, 0.50),
        "p99": percentile(latencies, 0.99),
        "ttft_p50": percentile(ttfts, 0.50),
        "ttft_p99": percentile(ttfts, 0.99),
    }


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` of the ordered values do not exceed (nearest rank)."""
    return ordered[max(0, min(len(ordered) - 1, -int(-share * len(ordered) // 1) - 1))]


def summarise(runs: Sequence[Result]) -> list[dict[str, Any]]:
    """A row for each load and arm: medians over the rounds, against one at a time and against direct."""
    rows = []
    for load, arm in dict.fromkeys((run["load"], run["arm"]) for run in runs):

        def of(name: str, arm: str = arm, load: str = load) -> float | None:
            chosen = [run for run in runs if run["load"] == load and run["arm"] == arm]
            return median(chosen, name) if chosen else None

        rows.append(
            {
                "load": load,
                "arm": arm,
                "requests/s": of("requests_per_s"),
                "tokens/s": of("tokens_per_s"),
                "times one at a time": _ratio(of("tokens_per_s"), of("tokens_per_s", ALONE)),
                "times direct": _ratio(of("tokens_per_s"), of("tokens_per_s", DIRECT)),
                "p50 ms": of("p50"),
                "p99 ms": of("p99"),
                "p99, times one at a time": _ratio(of("p99"), of("p99", ALONE)),
                "TTFT p50 ms": of("ttft_p50"),
                "TTFT p99 ms": of("ttft_p99"),
                "unfinished": of("unfinished"),
                "busy cores": of("busy_cores"),
            }
        )
    return rows


def goals(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What Sluice is to reach on the loads that were measured, and what it reached."""
    of = {(row["load"], row["arm"]): row for row in rows}
    found: list[dict[str, Any]] = []
    for load, arm in of:
        if arm != SLUICE:
            continue
        ours, reference, alone = of[load, SLUICE], of[load, DIRECT], (load, ALONE) in of
        if alone:
            least = 8.0 if load.startswith("vLLM") else 4.8
            found.append(_goal(load, "throughput, times one at a time", ours["times one at a time"], least=least))
        if alone and not load.startswith("vLLM"):
            found.append(_goal(load, "p99, times one at a time's", ours["p99, times one at a time"], most=0.25))
        if load == HALF:
            found.append(_goal(load, "throughput, times direct's", ours["times direct"], least=0.98))
        if load == FIFTH:
            added_ms = ours["TTFT p50 ms"] - reference["TTFT p50 ms"]
            found.append(_goal(load, "TTFT p50 above direct's, ms", added_ms, most=10.0))
    return found


def _goal(
    load: str, what: str, reached: float, least: float | None = None, most: float | None = None
) -> dict[str, Any]:
    asked = f"at least {least:g}" if least is not None else f"at most {most:g}"
    met = (least is None or reached >= least) and (most is None or reached <= most)
    return {"load": load, "of Sluice": what, "goal": asked, "reached": reached, "met": "yes" if met else "NO"}


def _ratio(value: float | None, base: float | None) -> float | None:
    return value / base if value is not None and base else None


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    return round(value) if isinstance(value, float) and value >= 1000 else value


def _capacity(runs: Sequence[Result]) -> float:
    """Requests/s of the direct arm in the first load."""
    found = next((run["requests_per_s"] for run in runs if run["arm"] == DIRECT), 0.0)
    return float(found)


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(times.user + times.nice + times.system + times.irq + times.softirq)


def _brief(run: Result) -> str:
    return (
        f"{run['requests_per_s']:.1f} requests/s, {run['tokens_per_s']:.0f} tokens/s, p50 {run['p50']:.0f} ms, "
        f"p99 {run['p99']:.0f} ms, TTFT p50 {run['ttft_p50']:.1f} ms, {run['unfinished']} unfinished, "
        f"{run['busy_cores']:.2f} cores"
    )


def environ_of(config: Config) -> dict[str, str]:
    """The environment that gives ``manage.py up`` the settings of ``config`` that are not the defaults."""
    plain = Config()
    changed = {item.name: getattr(config, item.name) for item in fields(Config)}
    return {f"SLUICE_{name.upper()}": str(value) for name, value in changed.items() if value != getattr(plain, name)}


def measure_group(group: Group, rounds: int, seconds: float) -> list[Result]:
    """Start the group's engine here and in the product, and measure."""

    async def with_engine(product: stack.Stack, key: str) -> list[Result]:
        engine = make_engine(group.config)
        await engine.start()
        try:
            return await measure(Ground(group, engine, product, key), rounds, seconds)
        finally:
            await engine.stop()

    with tempfile.TemporaryDirectory() as directory:
        environ = environ_of(group.config)
        with stack.start(Path(directory) / "data", "--no-flower", environ=environ) as product:
            key = product.add_tenants({"bench": {}})["bench"]
            runs: list[Result] = uvloop.run(with_engine(product, key))
            return runs


NOTES = """
Same prompts, same answer lengths, in turns; medians of the rounds. All arms but Sluice call the engine inside the
benchmark's own process; Sluice goes over HTTP, the ready set in Valkey, Celery and back, so its figures hold all of
our overhead, and the load generator shares the machine's cores with it (busy cores: of the whole machine, in use on
average; where all are, the machine and not a way to batch is the limit). Every engine runs 64 sequences at once; static
batches and the naive window take as many, or what came within 50 ms. Known-answer probes are off while it measures.

- A static batch's answers are given out when all of them are done, so its first token comes with its last.
- Times are those of completed requests. Where an arm is overloaded (unfinished requests), its p99 is bounded by the
  length of the run, {seconds:g} s (longer on vLLM): in an open loop one at a time falls ever further behind, and in a
  closed loop each of its clients waits for all others.
- The simulator's step times are in real time and come from published figures and stated assumptions
  ([simulator](../../docs/reference/simulator.md#profiles)); ratios between arms carry over, absolute figures do not.

![Throughput and latency of each arm]({plot}.svg)
"""


def main(arguments: list[str]) -> None:
    """Measure and write the results and the plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=tuple(GROUPS), default="both")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20, help="length of one run of one arm")
    parser.add_argument("--dtype", default="auto", help="of vLLM: auto is float32 on a CPU")
    options = parser.parse_args(arguments)
    for engine in ("simulator", "vllm"):
        if options.engine in (engine, "both"):
            _record(engine, options.dtype, options.rounds, options.seconds)


def _record(engine: str, dtype: str, rounds: int, seconds: float) -> None:
    """Measure all loads on one kind of engine, and write them under a name of their own."""
    runs: list[Result] = []
    for group in GROUPS[engine]:
        config = group.config if engine == "simulator" else replace(group.config, dtype=dtype)
        runs += measure_group(replace(group, config=config), rounds, seconds)
    from bench.plot import plot  # only here: it takes a second to import, and every process of vLLM imports this module

    rows = summarise(runs)
    shown = [{name: _shown(value) for name, value in row.items()} for row in rows]
    name = f"batching_{engine}" if dtype == "auto" else f"batching_{engine}_{dtype}"
    options = f"--engine {engine} --dtype {dtype} --rounds {rounds} --seconds {seconds:g}"
    write(name, f'make bench ARGS="batching {options}"', shown, runs)
    plot(rows, RESULTS / f"{name}.svg")
    reached = table(goals(rows))
    print(reached)
    with (RESULTS / f"{name}.md").open("a") as results:
        results.write(f"\n{reached}\n{NOTES.format(seconds=seconds, plot=name)}")
