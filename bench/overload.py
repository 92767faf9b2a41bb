"""Overload: 1.6 times what two simulated engines can do, with classes and first come first served.

Prompts and answers are as long as in Azure's conversation trace, arrivals are a Poisson process with a fixed seed, all
requests stream. Four steps on one running instance:

1. capacity: closed loop, everything in one class;
2. alone: the prompts of the P0 requests, one at a time on idle engines, with short answers;
3. classes: 10 % P0, 40 % P1, 50 % P2 at 1.6 times capacity;
4. first come first served: the same requests at the same times, all of one tenant and in class P1.

An answer is good if its first token met the goal of its original class and came while the load lasted. Goals: P0 twice
the p99 alone, P1 2 s, P2 its queue deadline plus 2 s. Times count from when a request was due.

``make bench ARGS="overload [--seconds 60] [--rounds 2] [--step-tokens 512] [--p0-workers N]"``
"""

import argparse
import asyncio
import math
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import psutil
from matplotlib.figure import Figure

from bench.client import Call, HttpClient, Outcome, closed_loop, open_loop
from bench.picture import BLUE, GREY, RED, save
from bench.quantile import quantile
from bench.report import RESULTS, write
from bench.usage import Served, served
from bench.workloads import azure, chat_body, filler
from bench.workloads.azure import Lengths
from domain.qos import QosClass
from tests import stack
from tests.stack import Stack

MODEL = "smollm2-135m-instruct"
PROFILE = "a100-qwen2-7b"
WORKERS, MAX_NUM_SEQS = 2, 32
OVERLOAD = 1.6
MIX = {QosClass.P0: 0.1, QosClass.P1: 0.4, QosClass.P2: 0.5}
TIERS = {QosClass.P0: "priority", QosClass.P1: "default", QosClass.P2: "flex"}
P2_DEADLINE_S = 5.0
P1_GOAL_S = 2.0
P0_GOAL_TIMES_ALONE = 2.0
SEED = 7
CAPACITY_S, CAPACITY_WARM_S = 40.0, 15.0
DRAIN_S = 90.0
ALONE_TOKENS = 2
P0_RATIO_GOAL, GOODPUT_GOAL = 1.5, 1.5
REASONS = ("queue_deadline", "queue_full")
ENVIRON = {
    "SLUICE_MAX_MODEL_LEN": "16384",
    "SLUICE_MAX_NUM_SEQS": str(MAX_NUM_SEQS),
    "SLUICE_QUEUE_DEADLINE_P2_MS": str(int(P2_DEADLINE_S * 1000)),
}
# A P0 request waits for the step that runs when it comes, so a step must be short beside its own prompt.
STEP_TOKENS = 512
CAPACITY_CLIENTS = 3 * WORKERS * MAX_NUM_SEQS // 2


@dataclass(frozen=True, slots=True)
class Planned:
    """One request of the load: when it is due, its class, and its lengths in tokens."""

    at_s: float
    qos_class: QosClass
    lengths: Lengths


@dataclass(frozen=True, slots=True)
class Arm:
    """How one way of scheduling fared: outcomes by original class, and CPU used by Sluice and the client."""

    name: str
    outcomes: Mapping[QosClass, Sequence[Outcome]]
    cpu_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All that was measured.

    Attributes:
        capacity: requests/s that the engines end.
        alone: the P0 requests, one at a time.
        arms: with classes, and first come first served.
        rows: what the usage table says of the arm with classes.
        seconds: how long the load lasted, all rounds together.
    """

    capacity: float
    alone: Sequence[Outcome]
    arms: tuple[Arm, Arm]
    rows: Sequence[Served]
    seconds: float


def plan(lengths: Sequence[Lengths], rate: float, seconds: float, seed: int) -> list[Planned]:
    """Poisson arrivals at ``rate`` requests/s for ``seconds``; classes drawn by ``MIX``, lengths from the trace."""
    draw = random.Random(seed)
    planned: list[Planned] = []
    at_s = draw.expovariate(rate)
    while at_s < seconds:
        qos_class = draw.choices(list(MIX), list(MIX.values()))[0]
        planned.append(Planned(at_s, qos_class, draw.choice(lengths)))
        at_s += draw.expovariate(rate)
    return planned


def good(outcomes: Iterable[Outcome], goal_s: float, until_s: float) -> int:
    """Answers that were whole, began within the goal, and began before ``until_s``."""
    return sum(
        outcome.is_ok
        and outcome.ttft_s is not None
        and outcome.ttft_s <= goal_s
        and outcome.started_s + outcome.ttft_s <= until_s
        for outcome in outcomes
    )


def all_good(arm: Arm, goals_s: Mapping[QosClass, float], until_s: float) -> int:
    """Good answers of all classes."""
    return sum(good(outcomes, goals_s[qos_class], until_s) for qos_class, outcomes in arm.outcomes.items())


def endings(outcomes: Iterable[Outcome]) -> Counter[str]:
    """How requests ended: "answered", one of ``REASONS``, or "no reason" for all else."""
    return Counter(_ending(outcome) for outcome in outcomes)


def _ending(outcome: Outcome) -> str:
    if outcome.is_ok:
        return "answered"
    # A stream that waited has its head already: its reason comes as an event, with status 200.
    return outcome.error_code if outcome.error_code in REASONS else "no reason"


def ttft_quantile_ms(outcomes: Iterable[Outcome], share: float) -> float:
    """A quantile of the time to the first token, in ms, of what was answered."""
    return 1000 * quantile((outcome.ttft_s for outcome in outcomes if outcome.ttft_s is not None), share)


def call(planned: Planned, number: int, key: str, tag: str, tier: str | None, answer_tokens: int = 0) -> Call:
    """The request as it is sent; ``tag`` keeps the prompts of two steps apart, so that nothing is cached."""
    fields: dict[str, object] = {"stream": True} | ({"service_tier": tier} if tier else {})
    text = filler(f"{tag}-{number}", planned.lengths.prompt)
    body = chat_body(MODEL, text, answer_tokens or planned.lengths.answer, **fields)
    return Call(orjson.dumps(body), key, planned.at_s)


async def measure_capacity(running: Stack, key: str, lengths: Sequence[Lengths]) -> float:
    """Requests/s that the engines end while more than they can run are always there."""

    def calls() -> Iterator[Call]:
        draw = random.Random(SEED)
        for number in count():
            yield call(Planned(0, QosClass.P1, draw.choice(lengths)), number, key, "capacity", None)

    async with HttpClient(running.base_url) as client:
        stream = calls()
        outcomes = await closed_loop(client.send, [stream] * CAPACITY_CLIENTS, CAPACITY_S)
    ended = [outcome for outcome in outcomes if outcome.is_ok and outcome.ended_s >= CAPACITY_WARM_S]
    return len(ended) / (CAPACITY_S - CAPACITY_WARM_S)


async def measure_alone(running: Stack, key: str, load: Sequence[Planned], tag: str) -> list[Outcome]:
    """The P0 requests of the load, one at a time."""
    urgent = [planned for planned in load if planned.qos_class is QosClass.P0]
    tier = TIERS[QosClass.P0]
    calls = [call(planned, number, key, tag, tier, ALONE_TOKENS) for number, planned in enumerate(urgent)]
    async with HttpClient(running.base_url) as client:
        return await closed_loop(client.send, [calls], DRAIN_S)


async def measure_arm(running: Stack, key: str, load: Sequence[Planned], name: str, *, has_classes: bool) -> Arm:
    """The whole load, each class in a loop of its own so that its outcomes stay apart."""
    calls: dict[QosClass, list[Call]] = {qos_class: [] for qos_class in QosClass}
    for number, planned in enumerate(load):
        tier = TIERS[planned.qos_class] if has_classes else None
        calls[planned.qos_class].append(call(planned, number, key, name, tier))
    cpu_before_s = cpu_s(running)
    async with HttpClient(running.base_url) as client:
        loops = [open_loop(client.send, calls[qos_class], load[-1].at_s + DRAIN_S) for qos_class in QosClass]
        outcomes = await asyncio.gather(*loops)
    return Arm(name, dict(zip(QosClass, outcomes, strict=True)), cpu_s(running) - cpu_before_s)


def cpu_s(running: Stack) -> float:
    """CPU seconds used so far by all processes of the instance and by this one."""
    processes = [psutil.Process(), psutil.Process(running.process.pid), *running.children("")]
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def goals(alone: Sequence[Outcome]) -> dict[QosClass, float]:
    """Seconds to the first token within which an answer of each class is good."""
    return {
        QosClass.P0: P0_GOAL_TIMES_ALONE * ttft_quantile_ms(alone, 0.99) / 1000,
        QosClass.P1: P1_GOAL_S,
        QosClass.P2: P2_DEADLINE_S + P1_GOAL_S,
    }


def details(found: Measured, arm: Arm, goals_s: Mapping[QosClass, float], until_s: float) -> list[dict[str, Any]]:
    """A row for each class of one arm."""
    return [
        {
            "order (simulated engines)": arm.name,
            "class": qos_class.value.upper(),
            "requests": len(outcomes),
            "answered": endings(outcomes)["answered"],
            **{reason: endings(outcomes)[reason] for reason in (*REASONS, "no reason")},
            "TTFT p50 ms": ttft_quantile_ms(outcomes, 0.5),
            "TTFT p99 ms": ttft_quantile_ms(outcomes, 0.99),
            "goal ms": 1000 * goals_s[qos_class],
            "good answers": good(outcomes, goals_s[qos_class], until_s),
            **(whereabouts(found.rows, qos_class) if arm is found.arms[0] else {}),
        }
        for qos_class, outcomes in arm.outcomes.items()
    ]


def whereabouts(rows: Iterable[Served], qos_class: QosClass) -> dict[str, float]:
    """Where the time to the first token went, as the usage rows tell it: in the queue, and on the engine."""
    mine = [row for row in rows if row.qos_class == qos_class.value]
    on_engine = [row.first_token_s - row.claimed_s for row in mine if row.first_token_s is not None]
    return {
        "in the queue p99 ms": 1000 * quantile((row.claimed_s - row.admitted_s for row in mine), 0.99),
        "on the engine p99 ms": 1000 * quantile(on_engine, 0.99),
    }


def verdicts(found: Measured, goals_s: Mapping[QosClass, float], until_s: float) -> list[dict[str, Any]]:
    """What was to be shown, and whether it was."""
    classes = found.arms[0]
    alone_ms = ttft_quantile_ms(found.alone, 0.99)
    loaded_ms = ttft_quantile_ms(classes.outcomes[QosClass.P0], 0.99)
    slower = loaded_ms / alone_ms
    ours, theirs = (all_good(arm, goals_s, until_s) / found.seconds for arm in found.arms)
    gain = ours / theirs if theirs else math.inf
    silent = endings(classes.outcomes[QosClass.P2])["no reason"]
    figures: list[tuple[str, float, str, bool | str]] = [
        ("capacity, requests/s", found.capacity, "", ""),
        ("P0 TTFT p99 alone, ms", alone_ms, "", ""),
        ("P0 TTFT p99 under overload, ms", loaded_ms, "", ""),
        ("P0 TTFT p99, times alone", slower, f"<= {P0_RATIO_GOAL}", slower <= P0_RATIO_GOAL),
        ("goodput with classes, answers/s", ours, "", ""),
        ("goodput first come first served, answers/s", theirs, "", ""),
        ("goodput, times first come first served", gain, f">= {GOODPUT_GOAL}", gain >= GOODPUT_GOAL),
        ("P2 requests without answer or reason", silent, "0", silent == 0),
        ("CPU of Sluice and the client, s for each s of load", classes.cpu_s / found.seconds, "", ""),
    ]
    names = ("figure (simulated engines)", "measured", "goal", "met")
    return [dict(zip(names, figure, strict=True)) for figure in figures]


def plot(arms: Sequence[Arm], goals_s: Mapping[QosClass, float], path: Path) -> None:
    """Time to first token of every answer over the time when it was due, one panel an arm."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    panels = figure.subplots(1, len(arms), sharey=True)
    colours = {QosClass.P0: RED, QosClass.P1: BLUE, QosClass.P2: GREY}
    for arm, axes in zip(arms, panels, strict=True):
        for qos_class, outcomes in arm.outcomes.items():
            dots = [(outcome.started_s, outcome.ttft_s) for outcome in outcomes if outcome.ttft_s is not None]
            axes.scatter(*zip(*dots, strict=True), s=7, color=colours[qos_class], label=qos_class.value.upper())
            axes.axhline(goals_s[qos_class], color=colours[qos_class], linewidth=0.8, linestyle=":")
        axes.set(title=arm.name, xlabel="due at, s", yscale="log")
    panels[0].set_ylabel("time to first token, s (dotted: goal)")
    panels[0].legend(loc="lower right")
    figure.suptitle(f"{OVERLOAD:g} times capacity, {WORKERS} simulated engines ({PROFILE})")
    save(figure, path)


def measure(running: Stack, key: str, seconds: float, rounds: int) -> Measured:
    """All steps; every round has other requests."""
    lengths = azure.load()
    capacity = asyncio.run(measure_capacity(running, key, lengths))
    alone: list[Outcome] = []
    classes: list[Arm] = []
    fcfs: list[Arm] = []
    rows: list[Served] = []
    for number in range(rounds):
        load = plan(lengths, OVERLOAD * capacity, seconds, SEED + number)
        print(f"  {capacity:.2f} requests/s are capacity, {len(load)} requests in {seconds:g} s", file=sys.stderr)
        alone += asyncio.run(measure_alone(running, key, load, f"alone-{number}"))
        began_s = time.time()
        classes.append(asyncio.run(measure_arm(running, key, load, f"classes-{number}", has_classes=True)))
        rows += served(running, began_s)
        fcfs.append(asyncio.run(measure_arm(running, key, load, f"fcfs-{number}", has_classes=False)))
    arms = (pooled("classes", classes), pooled("first come first served", fcfs))
    return Measured(capacity, alone, arms, rows, seconds * rounds)


def pooled(name: str, arms: Sequence[Arm]) -> Arm:
    """The rounds of one arm as one."""
    outcomes = {qos_class: [one for arm in arms for one in arm.outcomes[qos_class]] for qos_class in QosClass}
    return Arm(name, outcomes, sum(arm.cpu_s for arm in arms))


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--step-tokens", type=int, default=STEP_TOKENS, help="SLUICE_MAX_NUM_BATCHED_TOKENS")
    parser.add_argument("--p0-workers", type=int, default=0, help="workers that serve P0 alone, as a variant")
    options = parser.parse_args(arguments)
    environ = {**ENVIRON, "SLUICE_MAX_NUM_BATCHED_TOKENS": str(options.step_tokens)}
    variant = ["--p0-workers", str(options.p0_workers)] if options.p0_workers else []
    sizes = ("--engine", "simulator", "--sim-profile", PROFILE, "--no-flower", "--workers", str(WORKERS), *variant)
    with (
        tempfile.TemporaryDirectory() as directory,
        stack.start(Path(directory) / "data", *sizes, environ=environ) as running,
    ):
        key = running.add_tenants({"bench": {"best_class": QosClass.P0.value}})["bench"]
        found = measure(running, key, options.seconds, options.rounds)
    name = "overload_p0_workers" if variant else "overload"
    command = f"overload --seconds {options.seconds:g} --rounds {options.rounds} --step-tokens {options.step_tokens}"
    command = " ".join([command, *variant])
    goals_s = goals(found.alone)
    table = [row for arm in found.arms for row in details(found, arm, goals_s, options.seconds)]
    write(name, f'make bench ARGS="{command}"', verdicts(found, goals_s, options.seconds), table)
    write(f"{name}_classes", f'make bench ARGS="{command}"', table, table)
    plot(found.arms, goals_s, RESULTS / f"{name}.svg")
