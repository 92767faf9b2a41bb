"""Fair share: two tenants of one class, prompts of 8,000 (or 2,000) against 100 tokens, engines saturated by both.

Simulated engines. Each tenant keeps more requests in flight than all engines run sequences, so both always wait. The
service of a tenant is counted from the usage rows in weighted tokens (uncached prompt 1, answer 2), spread over the
time a request was on its engine, inside the saturated interval alone. Every prompt is different: nothing is cached.

``make bench ARGS="fair_share [--seconds 40]"``
"""

import argparse
import asyncio
import math
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import orjson
from matplotlib.figure import Figure

from bench.client import Call, HttpClient, closed_loop
from bench.picture import BLUE, GREY, save
from bench.report import RESULTS, write
from bench.usage import Served, served
from bench.workloads import chat_body, filler
from tests import stack
from tests.stack import Stack

MODEL = "smollm2-135m-instruct"
PROFILE = "h100-llama-3.1-8b"
MAX_NUM_SEQS = 16
ENVIRON = {"SLUICE_MAX_MODEL_LEN": "16384", "SLUICE_MAX_NUM_SEQS": str(MAX_NUM_SEQS), "SLUICE_PROBE_INTERVAL_S": "0"}
# More than all sequences of the engines, so that some of each tenant's always wait.
CLIENTS_A_WORKER = 2 * MAX_NUM_SEQS
WARM_S = 10.0
# What runs or waits when the interval is over still ends, so that its part inside is known.
DRAIN_S = 90.0
JAIN_GOAL, SHARE_TOLERANCE = 0.95, 0.05
FLEETS = ((1, 1), (2, 2))


@dataclass(frozen=True, slots=True)
class Party:
    """A tenant and what it sends: its name, weight, and the tokens of each prompt and answer."""

    name: str
    weight: float
    prompt_tokens: int
    answer_tokens: int


CASES: dict[str, tuple[Party, Party]] = {
    "equal weights": (Party("long-1", 1, 8_000, 16), Party("short-1", 1, 100, 128)),
    "long prompts weigh 3": (Party("long-3", 3, 8_000, 16), Party("short-b", 1, 100, 128)),
    # Prompts of 8,000 tokens at a quarter of the service come too rarely to tell 5 % apart in less than minutes.
    "short prompts weigh 3": (Party("long-b", 1, 2_000, 16), Party("short-3", 3, 100, 128)),
}


def jain_index(shares: Sequence[float]) -> float:
    """Jain's index of fairness: 1 when all are equal, 1/n when one has everything (Jain, Chiu and Hawe, 1984).

    Raises:
        ValueError: nobody got anything.
    """
    squares = sum(share * share for share in shares)
    if not squares:
        raise ValueError("no service at all")
    return sum(shares) ** 2 / (len(shares) * squares)


def service(rows: Iterable[Served], begin_s: float, end_s: float) -> dict[str, float]:
    """Weighted tokens that each tenant was served within an interval."""
    totals: dict[str, float] = defaultdict(float)
    for row in rows:
        totals[row.tenant] += row.cost_within(begin_s, end_s)
    return dict(totals)


def verdict(parties: Sequence[Party], totals: Mapping[str, float]) -> dict[str, Any]:
    """Jain's index over service by weight, the ratio that was measured and the one that the weights ask for."""
    first, second = parties
    wanted = first.weight / second.weight
    ratio = totals[first.name] / totals[second.name]
    jain = jain_index([totals[party.name] / party.weight for party in parties])
    is_met = jain >= JAIN_GOAL if wanted == 1 else abs(ratio / wanted - 1) <= SHARE_TOLERANCE
    return {"ratio": ratio, "wanted": wanted, "Jain index": jain, "goal met": is_met}


def calls(party: Party, key: str, run: int, until_s: float = math.inf) -> Iterator[Call]:
    """Requests until a time of the monotonic clock, no two alike."""
    for number in count():
        if time.monotonic() >= until_s:
            return
        text = filler(f"{party.name}-{run}-{number}", party.prompt_tokens)
        yield Call(orjson.dumps(chat_body(MODEL, text, party.answer_tokens)), key)


async def saturate(
    running: Stack, parties: Sequence[Party], keys: Mapping[str, str], workers: int, seconds: float
) -> None:
    """Both tenants' closed loops at once."""
    clients = CLIENTS_A_WORKER * workers
    async with HttpClient(running.base_url) as client:
        until_s = time.monotonic() + seconds
        streams = [calls(party, keys[party.name], time.time_ns(), until_s) for party in parties]
        loops = [closed_loop(client.send, [stream] * clients, seconds + DRAIN_S) for stream in streams]
        failed = [one for outcomes in await asyncio.gather(*loops) for one in outcomes if not one.is_ok]
    if failed:
        raise RuntimeError(f"{len(failed)} requests failed, the first with {failed[0].status} {failed[0].error_code}")


def measure(
    running: Stack, fleet: tuple[int, int], name: str, keys: Mapping[str, str], seconds: float
) -> dict[str, Any]:
    """One case on one fleet; returns a row of the table."""
    parties, (gateways, workers) = CASES[name], fleet
    began_s = time.time()
    asyncio.run(saturate(running, parties, keys, workers, WARM_S + seconds))
    rows = served(running, began_s)
    totals = service(rows, began_s + WARM_S, began_s + WARM_S + seconds)
    found = verdict(parties, totals)
    print(f"  {gateways}+{workers} {name}: {found}", file=sys.stderr)
    long, short = (totals[party.name] / seconds for party in parties)
    return {
        "gateways + workers (simulated)": f"{gateways} + {workers}",
        "weights": name,
        "prompts, tokens": " : ".join(str(party.prompt_tokens) for party in parties),
        "long prompts, tokens/s": long,
        "short prompts, tokens/s": short,
        **found,
        "requests": len(rows),
    }


def run_fleet(directory: Path, fleet: tuple[int, int], seconds: float) -> list[dict[str, Any]]:
    """All cases on one fleet, one after the other."""
    gateways, workers = fleet
    size = ("--gateways", str(gateways), "--workers", str(workers))
    options = ("--engine", "simulator", "--sim-profile", PROFILE, "--no-flower", *size)
    with stack.start(directory / f"data-{gateways}-{workers}", *options, environ=ENVIRON) as running:
        plans = {party.name: {"weight": party.weight} for parties in CASES.values() for party in parties}
        keys = running.add_tenants(plans)
        return [measure(running, fleet, name, keys, seconds) for name in CASES]


def plot(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Bars of the measured ratio beside what the weights ask for."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    labels = [f"{row['weights']}\n{row['gateways + workers (simulated)']}" for row in rows]
    places = range(len(rows))
    axes.bar([place - 0.2 for place in places], [row["wanted"] for row in rows], 0.4, label="by weight", color=GREY)
    axes.bar([place + 0.2 for place in places], [row["ratio"] for row in rows], 0.4, label="measured", color=BLUE)
    axes.set_xticks(list(places), labels, fontsize=7)
    axes.set_ylabel("service, long : short prompts")
    axes.set_title("Service of two saturated tenants (simulated engines, gateways + workers)")
    axes.legend()
    save(figure, path)


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40)
    options = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        for fleet in FLEETS:
            rows += run_fleet(Path(name), fleet, options.seconds)
    write("fair_share", f'make bench ARGS="fair_share --seconds {options.seconds:g}"', rows, rows)
    plot(rows, RESULTS / "fair_share.svg")
