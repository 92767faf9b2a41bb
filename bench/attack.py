"""An attack on the cache: what it does to a tenant that repeats itself, and how far it comes.

Two gateways, one worker on a simulated engine, little memory for kept answers. A normal tenant sends chats of which
most come again and some name stored prompts. An attacker sends 1,000 requests a second: 95 % name stored prompts that
do not exist, the others are chats of which 85 % are seen once and the rest repeat one in another form. The normal
tenant is measured alone and beside the attacker, in turns, twice each.

Load generators run on the same machine; the table says how busy it was.

``make bench ARGS="attack [--seconds 20] [--rate 1000] [--normal 20]"``
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from matplotlib.figure import Figure

from bench.attack_load import Told, attack, first_calls, normal_calls, send_all, store_prompts
from bench.client import Outcome
from bench.picture import BLUE, GREY, RED, save
from bench.quantile import quantile
from bench.report import RESULTS, write
from tests import stack
from tests.stack import Stack, wait_until

PROFILE = "h100-llama-3.1-8b"
WARM_S, FIRST_PER_S, PATIENCE_S = 5.0, 30.0, 60.0
STOPPED_GOAL, ASKED_GOAL, P99_GOAL, HIT_GOAL = 0.92, 1.0, 1.2, 0.02
ENVIRON = {"SLUICE_RESPONSE_CACHE": "true", "SLUICE_CACHE_LOCAL_MIB": "1", "SLUICE_CACHE_STORE_MIB": "2"}
LOOKUP = re.compile(r'^sluice_prompt_lookups_total\{where="(\w+)"\} (\S+)', re.MULTILINE)
ABSENT = re.compile(r"^sluice_prompt_absent_queries_total (\S+)", re.MULTILINE)
BEFORE_ALL = ("form", "filter")
"""Where a look-up ends that asked nobody."""


@dataclass(slots=True)
class Phase:
    """What one phase came to.

    Attributes:
        beside: the attacker was there.
        began_s: seconds since 1970; ``ended_s`` likewise.
        outcomes: of the normal tenant.
        ends: where look-ups of stored prompts ended; "absent" counts questions to the database for none.
        told: by the attacker.
        product_cores: that the product kept busy on average; ``busy_cores`` everything on the machine.
    """

    beside: bool
    began_s: float
    ended_s: float = 0.0
    outcomes: list[Outcome] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)
    told: Told = field(default_factory=lambda: Told(Counter(), 0.0))
    product_cores: float = 0.0
    busy_cores: float = 0.0


class Arena:
    """The running product and both tenants."""

    def __init__(self, running: Stack, seconds: float, rate: float, normal: float) -> None:
        self._running, self._seconds, self._rate, self._normal = running, seconds, rate, normal
        keys = running.add_tenants({"normal": {}, "attacker": {"max_concurrent": 64}})
        self._key, self._attacker = keys["normal"], keys["attacker"]
        self._prompts = store_prompts(running.base_url, self._key)

    def warm_up(self) -> None:
        """Let all that comes again be kept, and come again for some seconds."""
        first = first_calls(self._key, self._prompts, FIRST_PER_S)
        asyncio.run(send_all(self._running.base_url, first, PATIENCE_S))
        asyncio.run(self._send(WARM_S, 1))

    def phase(self, *, beside: bool, seed: int) -> Phase:
        """Send the normal tenant's requests, with or without the attacker."""
        spawn = multiprocessing.get_context("spawn")
        ready, begin, queue = spawn.Event(), spawn.Event(), spawn.Queue()
        told = (self._running.base_url, self._attacker, self._rate, self._seconds, seed, ready, begin, queue)
        attacker = spawn.Process(target=attack, args=told, daemon=True)
        if beside:
            attacker.start()
            ready.wait(PATIENCE_S)
        found = Phase(beside, time.time())
        ends, product_s, busy_s = self._ends(), self._product_s(), _busy_s()
        begin.set()
        found.outcomes = asyncio.run(self._send(self._seconds, seed))
        if beside:
            found.told = queue.get(timeout=self._seconds + PATIENCE_S)
            attacker.join(PATIENCE_S)
        found.ended_s = time.time()
        took_s = found.ended_s - found.began_s
        found.product_cores = (self._product_s() - product_s) / took_s
        found.busy_cores = (_busy_s() - busy_s) / took_s
        found.ends = self._ends() - ends
        return found

    async def _send(self, seconds: float, seed: int) -> list[Outcome]:
        calls = normal_calls(self._key, self._prompts, self._normal, seconds, seed)
        return await send_all(self._running.base_url, calls, seconds)

    def _ends(self) -> Counter[str]:
        """Where look-ups have ended so far, over all gateways."""
        counts: Counter[str] = Counter()
        for target in json.loads((self._running.data_dir / "prometheus_targets.json").read_text()):
            if target["labels"]["job"] == "sluice-gateway":
                text = httpx.get(f"http://{target['targets'][0]}/metrics", timeout=10).text
                counts.update({where: int(float(count)) for where, count in LOOKUP.findall(text)})
                counts["absent"] += sum(int(float(count)) for count in ABSENT.findall(text))
        return counts

    def _product_s(self) -> float:
        product = psutil.Process(self._running.process.pid)
        return sum(sum(one.cpu_times()[:2]) for one in (product, *product.children(recursive=True)))

    def hit_rates(self, phases: Sequence[Phase], tenant: str) -> list[float]:
        """The share of each phase's requests that a kept or shared answer served, from the usage rows."""
        query = (
            "SELECT admitted_at, cache FROM tenants_usagerecord WHERE outcome = 'completed' AND tenant_id = "
            f"(SELECT id FROM tenants_tenant WHERE slug = '{tenant}')"
        )
        rows = [
            (datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp(), cache)
            for at, cache in self._running.query(query)
        ]
        return [_share([cache for at_s, cache in rows if one.began_s <= at_s <= one.ended_s]) for one in phases]

    def wait_for_rows(self) -> None:
        """Wait until everything is settled."""
        wait_until(lambda: not self._running.leftovers(), PATIENCE_S)
        time.sleep(1)


def _share(caches: Sequence[str]) -> float:
    return sum(cache in ("hit", "coalesced") for cache in caches) / len(caches) if caches else 0.0


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait)


def summarise(phases: Sequence[Phase], hits: Sequence[float]) -> Iterator[dict[str, Any]]:
    """A row for each arm."""
    for beside in (False, True):
        mine = [(one, hit) for one, hit in zip(phases, hits, strict=True) if one.beside is beside]
        outcomes = [outcome for one, _ in mine for outcome in one.outcomes]
        latencies = [outcome.latency_s * 1000 for outcome in outcomes if outcome.is_ok]
        yield {
            "normal tenant": "beside the attack" if beside else "alone",
            "requests": len(outcomes),
            "failed": sum(not outcome.is_ok for outcome in outcomes),
            "hit rate": sum(hit for _, hit in mine) / len(mine),
            "p50 ms": quantile(latencies, 0.5),
            "p99 ms": quantile(latencies, 0.99),
            "product, cores": sum(one.product_cores for one, _ in mine) / len(mine),
            "machine busy, cores": sum(one.busy_cores for one, _ in mine) / len(mine),
        }


def judge(rows: Sequence[Mapping[str, Any]], phases: Sequence[Phase], seconds: float) -> list[dict[str, Any]]:
    """The goals, and how far they are met."""
    alone, beside = rows
    attacked = [one for one in phases if one.beside]
    statuses = sum((one.told.statuses for one in attacked), Counter[str]())
    ends = sum((one.ends for one in attacked), Counter[str]())
    answered = sum(count for status, count in statuses.items() if status in ("ids 404", "ids 429"))
    stopped = sum(ends[where] for where in BEFORE_ALL) / max(1, answered)
    ratio, points = beside["p99 ms"] / alone["p99 ms"], beside["hit rate"] - alone["hit rate"]
    sent_s = sum(statuses.values()) / (seconds * len(attacked))
    return [
        _goal(
            "attacker's requests answered a second",
            sum(statuses[s] for s in statuses if s[-3:].isdigit()) / (seconds * len(attacked)),
            f"of {sent_s:.0f} due",
            None,
        ),
        _goal("made-up ids stopped before store and database", stopped, f">= {STOPPED_GOAL}", stopped >= STOPPED_GOAL),
        _goal(
            "questions to the database for made-up ids, a second",
            asked_s := ends["absent"] / (seconds * len(attacked)),
            f"near 0: <= {ASKED_GOAL:g}",
            asked_s <= ASKED_GOAL,
        ),
        _goal("normal tenant's p99, beside / alone", ratio, f"<= {P99_GOAL}", ratio <= P99_GOAL),
        _goal("normal tenant's hit rate, beside - alone", points, f">= -{HIT_GOAL}", points >= -HIT_GOAL),
    ]


def _goal(what: str, value: float, goal: str, is_met: bool | None) -> dict[str, Any]:
    return {"figure": what, "value": value, "goal": goal, "met": "–" if is_met is None else "yes" if is_met else "NO"}


def plot(phases: Sequence[Phase], path: Path) -> None:
    """Latency of the normal tenant in both arms, and where made-up ids ended."""
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for beside, colour, name in ((False, GREY, "alone"), (True, BLUE, "beside the attack")):
        outcomes = [outcome for one in phases if one.beside is beside for outcome in one.outcomes if outcome.is_ok]
        latencies = sorted(outcome.latency_s * 1000 for outcome in outcomes)
        left.plot(latencies, [(at + 1) / len(latencies) for at in range(len(latencies))], color=colour, label=name)
    left.set(xscale="log", xlabel="latency, ms (log)", ylabel="share of requests", title="normal tenant")
    left.legend(frameon=False)
    ends = sum((one.ends for one in phases if one.beside), Counter[str]())
    ends["database"] = ends["absent"]  # the normal tenant's own are there too
    names = [name for name in ("form", "filter", "truth", "negative", "limited", "database") if ends[name]]
    bars = right.barh(names[::-1], [ends[name] for name in names[::-1]], height=0.6)
    for name, bar in zip(names[::-1], bars, strict=True):
        bar.set_color(BLUE if name in BEFORE_ALL else RED)
    right.bar_label(bars, padding=3)
    right.set(title="attack: where look-ups ended", xlabel="look-ups of stored prompts")
    save(figure, path)


def measure(running: Stack, options: argparse.Namespace, command: str) -> None:
    """All phases, then the tables and the picture."""
    arena = Arena(running, options.seconds, options.rate, options.normal)
    arena.warm_up()
    phases = []
    for turn in range(4):
        phases.append(arena.phase(beside=turn % 2 == 1, seed=2 + turn))
        print(f"  phase {turn + 1} of 4: {phases[-1].ends} {phases[-1].told.statuses}", file=sys.stderr)
    arena.wait_for_rows()
    rows = list(summarise(phases, arena.hit_rates(phases, "normal")))
    goals = judge(rows, phases, options.seconds)
    runs = [
        {
            "beside": one.beside,
            "seconds": one.ended_s - one.began_s,
            "ends": one.ends,
            "attacker": one.told.statuses,
            "attacker, CPU s": one.told.cpu_s,
            "attacker's chats served by kept answers": hit,
            "latencies, ms": [round(outcome.latency_s * 1000, 1) for outcome in one.outcomes],
        }
        for one, hit in zip(phases, arena.hit_rates(phases, "attacker"), strict=True)
    ]
    write("attack", command, rows, runs)
    write("attack_goals", command, goals, [])
    plot(phases, RESULTS / "attack.svg")


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20, help="of each of four phases")
    parser.add_argument("--rate", type=float, default=1000, help="the attacker's requests a second")
    parser.add_argument("--normal", type=float, default=20, help="the normal tenant's")
    options = parser.parse_args(arguments)
    command = f'make bench ARGS="{" ".join(["attack", *arguments])}"'
    settings = ("--engine", "simulator", "--sim-profile", PROFILE, "--no-flower", "--gateways", "2")
    with (
        tempfile.TemporaryDirectory() as directory,
        stack.start(Path(directory) / "data", *settings, environ=ENVIRON) as running,
    ):
        measure(running, options, command)
