"""Does the attribution tree name what was slowed down? Known delays at known places, in random scenarios.

Simulated engines, two gateways, two workers, two tenants. In each scenario one place is delayed, for all requests, for
one worker's or for one tenant's. The share of that place that the tree gives is compared with the truth: the delay that
was asked for, and what the place takes anyway, over the time to first token as the client itself measured it, in the
slow requests.

``make bench ARGS="attribution [--scenarios 20] [--seed 1]"``
"""

import argparse
import asyncio
import json
import random
import sqlite3
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from bench.client import Call, HttpClient, Outcome
from bench.report import RESULTS, table, write
from domain.trace.attribution import Node, Sample, attribute, percentile
from domain.trace.stages import STAGES, Stage
from tests import stack
from tests.stack import Stack

MODEL = "smollm2-135m-instruct"
TENANTS = ("amber", "birch")
OPTIONS = ("--engine", "simulator", "--sim-profile", "zero", "--gateways", "2", "--workers", "2", "--no-flower")
REQUESTS, AT_ONCE = 48, 4
LEAST_MS, MOST_MS = 250, 800
NOTE = "Simulated engines. An error is the difference between share and truth, in points."
POINTS = 3.0
ENVIRON = {"SLUICE_HEARTBEAT_MS": "10000", "SLUICE_LEASE_TTL_MS": "40000", "SLUICE_PROBE_INTERVAL_S": "0"}
"""A worker looks for work with each beat of its heart, so that a late ticket would not show."""

KNOWN_S = 1.5
"""By then every process has read what is delayed."""

STORED_S = 30.0
TIMEOUT_S = 30.0

PLACES: Mapping[Stage, str] = {
    Stage.WINDOW: "window",
    Stage.TRANSIT: "transit",
    Stage.PREPARE: "prepare",
    Stage.ENGINE_QUEUE: "queue",
    Stage.PREFILL: "delay",
    Stage.RELAY: "relay",
}
"""What each stage's delay is called; those inside the engine are asked for by the requests themselves."""

OF_TICKETS = frozenset({Stage.WINDOW, Stage.TRANSIT})
"""Asked for one after the other: of several at once, one whose ticket is late is taken with another's."""

IN_ENGINE = frozenset({Stage.ENGINE_QUEUE, Stage.PREFILL})
OF_ONE_TENANT = (Stage.PREPARE, Stage.ENGINE_QUEUE, Stage.PREFILL, Stage.RELAY)
OF_ONE_WORKER = (Stage.PREPARE,)

_numbers = count()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One delay: where, how long, and whose: "", "worker" or "tenant"."""

    stage: Stage
    ms: int
    whose: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the tree said of one scenario.

    Attributes:
        scenario: what was done.
        named: the leaf with the largest share, ``blamed`` the worker or tenant that it names.
        share: of the stage that was delayed, in percent; ``truth`` what it should be.
        is_named: it named the stage, and whose it is.
    """

    scenario: Scenario
    named: str
    blamed: str
    share: float
    truth: float
    is_named: bool

    @property
    def error(self) -> float:
        """The difference between share and truth, in points."""
        return abs(self.share - self.truth)

    @property
    def is_right(self) -> bool:
        """It named what was done, with an error under ``POINTS``."""
        return self.is_named and self.error < POINTS


def draw(dice: random.Random) -> Scenario:
    """A random scenario; every place and every kind of culprit comes up."""
    whose = dice.choice(("", "", "worker", "tenant"))
    stages = {"worker": OF_ONE_WORKER, "tenant": OF_ONE_TENANT}.get(whose, tuple(PLACES))
    return Scenario(dice.choice(tuple(stages)), dice.randint(LEAST_MS, MOST_MS), whose)


class Ground:
    """The product that the scenarios run on.

    Args:
        product: on simulated engines.
        keys: API keys of ``TENANTS``.
        requests: of each scenario.
    """

    def __init__(self, product: Stack, keys: Mapping[str, str], requests: int = REQUESTS) -> None:
        self._product, self._keys, self._requests = product, keys, requests
        self._plain_ms: dict[Stage, float] = {}
        with product.store() as store:
            self._workers = sorted(name.decode() for name in store.smembers("sl:workers"))

    def measure_plain(self) -> None:
        """What each stage takes where nothing is delayed."""
        found, _ = self._run(None)
        self._plain_ms = {
            stage: percentile([one.lengths_us[number] for one in found], 0.5) / 1000
            for number, stage in enumerate(STAGES)
        }

    def judge(self, scenario: Scenario) -> Verdict:
        """Run one scenario and compare what the tree says with the truth."""
        found, ttfts_ms = self._run(scenario)
        tree = attribute(found)
        assert tree is not None, "nothing was stored"
        slow_ms = [one for one in ttfts_ms if one >= percentile([int(ttft) for ttft in ttfts_ms], 0.95)]
        truth = 100 * (scenario.ms + self._plain_ms[scenario.stage]) / (sum(slow_ms) / len(slow_ms))
        leaf, stage = _largest_leaf(tree.root), tree.root.find(scenario.stage.value)
        share = 100 * stage.share if stage else 0.0
        blamed = leaf.culprit.name if leaf.culprit else ""
        is_named = leaf.name == scenario.stage.value and blamed == self._culprit(scenario)
        return Verdict(scenario, leaf.name, blamed, share, truth, is_named)

    def _culprit(self, scenario: Scenario) -> str:
        return str({"worker": self._workers[0], "tenant": TENANTS[0], "": ""}[scenario.whose])

    def _run(self, scenario: Scenario | None) -> tuple[list[Sample], list[float]]:
        with self._product.store() as store:
            if scenario and scenario.stage not in IN_ENGINE:
                whose = self._culprit(scenario)
                text = f"{PLACES[scenario.stage]}={scenario.ms}{f'@{whose}' if whose else ''}"
                store.set("sl:sim:delays", text)
            try:
                time.sleep(KNOWN_S)
                begin_us = time.time_ns() // 1000
                outcomes = asyncio.run(self._send(scenario))
            finally:
                store.delete("sl:sim:delays")
        failed = [one.error_code or one.status for one in outcomes if not one.is_ok]
        assert not failed, failed
        stack.wait_until(
            lambda: len(self._stored(begin_us)) == self._requests, STORED_S, "not all requests were stored"
        )
        return self._stored(begin_us), [1000 * one.ttft_s for one in outcomes if one.ttft_s is not None]

    async def _send(self, scenario: Scenario | None) -> list[Outcome]:
        at_once = 1 if scenario and scenario.stage in OF_TICKETS else AT_ONCE
        loop, seats = asyncio.get_running_loop(), asyncio.Semaphore(at_once)
        async with HttpClient(self._product.base_url) as client:

            async def one(number: int) -> Outcome:
                async with seats:
                    now_s = loop.time()
                    return await client.send(self._call(number, scenario), now_s, now_s + TIMEOUT_S)

            return await asyncio.gather(*map(one, range(self._requests)))

    def _call(self, number: int, scenario: Scenario | None) -> Call:
        tenant = TENANTS[number % len(TENANTS)]
        body: dict[str, Any] = {
            "model": MODEL,
            "messages": [{"role": "user", "content": f"attribution {next(_numbers)}"}],
            "max_tokens": 4,
            "stream": True,
        }
        is_slowed = scenario and scenario.stage in IN_ENGINE and (not scenario.whose or tenant == TENANTS[0])
        if scenario and is_slowed:
            body["metadata"] = {"sim": f"{PLACES[scenario.stage]}={scenario.ms / 1000}"}
        return Call(json.dumps(body).encode(), self._keys[tenant])

    def _stored(self, begin_us: int) -> list[Sample]:
        from tracing.store.packing import unpack_lengths  # needs Django's settings, which a test has made by now

        with sqlite3.connect(self._product.data_dir / "sluice.sqlite3") as database:
            rows = database.execute(
                "SELECT lengths, ttft_us, worker_id, tenant FROM tracing_storedrequest "
                "WHERE started_us >= ? AND ttft_us IS NOT NULL AND tenant IN (?, ?)",
                (begin_us, *TENANTS),
            ).fetchall()
        return [Sample(unpack_lengths(lengths), ttft, worker, tenant) for lengths, ttft, worker, tenant in rows]


def _largest_leaf(node: Node) -> Node:
    leaves = [node]
    while any(leaf.children for leaf in leaves):
        leaves = [below for leaf in leaves for below in (leaf.children or (leaf,))]
    return max(leaves, key=lambda leaf: leaf.share)


def row_of(verdict: Verdict) -> dict[str, Any]:
    """A verdict for the table."""
    scenario = verdict.scenario
    return {
        "delayed": scenario.stage.value,
        "ms": scenario.ms,
        "of": scenario.whose or "all",
        "named": verdict.named,
        "blamed": verdict.blamed,
        "share, %": verdict.share,
        "truth, %": verdict.truth,
        "error, points": verdict.error,
        "right": "yes" if verdict.is_right else "NO",
    }


def run(scenarios: Sequence[Scenario], requests: int = REQUESTS) -> list[Verdict]:
    """Run scenarios on a product of their own."""
    with (
        tempfile.TemporaryDirectory() as directory,
        stack.start(Path(directory) / "data", *OPTIONS, environ=ENVIRON) as product,
    ):
        ground = Ground(product, product.add_tenants({tenant: {} for tenant in TENANTS}), requests)
        ground.measure_plain()
        return [ground.judge(scenario) for scenario in scenarios]


def main(arguments: list[str]) -> None:
    """Run random scenarios, and write what the tree said of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenarios", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    dice = random.Random(options.seed)
    verdicts = run([draw(dice) for _ in range(options.scenarios)])
    rows = [row_of(verdict) for verdict in verdicts]
    command = f'make bench ARGS="attribution --scenarios {options.scenarios} --seed {options.seed}"'
    write("attribution", command, rows, rows)
    right = sum(verdict.is_right for verdict in verdicts)
    goal = table([{"scenarios": len(verdicts), "right": right, "goal": "at least 19 of 20"}])
    print(goal)
    with (RESULTS / "attribution.md").open("a") as results:
        results.write(f"\n{goal}\n\n{NOTE}\n")
