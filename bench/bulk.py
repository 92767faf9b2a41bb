"""Batches: what they take of idle engines, and what they cost those who wait for an answer.

Two simulated engines; prompts and answers are as long as in Azure's conversation trace. Steps on one running instance:

1. capacity: closed loop of background requests over HTTP;
2. users alone: P0 and P1 arrive as a Poisson process at 0.4 times capacity;
3. users with a batch: the same requests at the same times, while a batch larger than the engines can end works;
4. a batch alone.

Answers of batches are counted by the usage rows that ended within the step. Times count from when a request was due.

``make bench ARGS="bulk [--seconds 60] [--rounds 2]"``
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.client import Call, HttpClient, Outcome, open_loop
from bench.overload import (
    DRAIN_S,
    ENVIRON,
    MODEL,
    PROFILE,
    STEP_TOKENS,
    TIERS,
    WORKERS,
    Planned,
    call,
    measure_capacity,
)
from bench.quantile import quantile
from bench.report import write
from bench.workloads import azure, chat_body, filler
from bench.workloads.azure import Lengths
from domain.qos import QosClass
from tests import stack
from tests.stack import Stack

LOAD = 0.4
MIX = {QosClass.P0: 0.2, QosClass.P1: 0.8}
SEED = 11
WARM_S = 10.0
"""A batch is given so long until its requests are under way."""
PLENTY = 3.0
"""A batch has so many times the requests that the engines can end in its step."""


@dataclass(frozen=True, slots=True)
class Step:
    """What came of one step: outcomes of users by class, and answers of batches a second."""

    users: Mapping[QosClass, Sequence[Outcome]]
    batch_rate: float


def users_plan(lengths: Sequence[Lengths], rate: float, seconds: float, seed: int) -> list[Planned]:
    """Poisson arrivals of P0 and P1 at ``rate`` requests/s for ``seconds``."""
    draw = random.Random(seed)
    planned: list[Planned] = []
    at_s = draw.expovariate(rate)
    while at_s < seconds:
        planned.append(Planned(at_s, draw.choices(list(MIX), list(MIX.values()))[0], draw.choice(lengths)))
        at_s += draw.expovariate(rate)
    return planned


def batch_file(lengths: Sequence[Lengths], requests: int, tag: str, seed: int) -> bytes:
    """A file of chats as a client writes it."""
    draw = random.Random(seed)
    lines = []
    for number in range(requests):
        one = draw.choice(lengths)
        body = chat_body(MODEL, filler(f"{tag}-{number}", one.prompt), one.answer)
        line = {"custom_id": f"{tag}-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}
        lines.append(json.dumps(line).encode() + b"\n")
    return b"".join(lines)


class Batch:
    """One batch that works while a step is measured."""

    def __init__(self, running: Stack, key: str, content: bytes) -> None:
        self._client = running.client(api_key=key)
        file = self._client.files.create(file=("bench.jsonl", content), purpose="batch")
        self._id = self._client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        ).id

    def cancel(self) -> None:
        """End it, and wait until it has ended."""
        status = self._client.batches.cancel(self._id).status
        while status not in ("cancelled", "completed"):
            time.sleep(0.5)
            status = self._client.batches.retrieve(self._id).status
        self._client.close()


def answered(running: Stack, began_s: float, ended_s: float) -> int:
    """Requests of batches that were answered between two times (seconds of the epoch)."""
    between = " AND ".join(
        f"finished_at {sign} '{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(at))}'"
        for sign, at in ((">=", began_s), ("<", ended_s))
    )
    statement = (
        f"SELECT COUNT(*) FROM tenants_usagerecord WHERE outcome = 'completed' AND qos_class = 'p2' AND {between}"
    )
    return int(running.query(statement)[0][0])


async def send_users(running: Stack, key: str, load: Sequence[Planned], tag: str) -> Mapping[QosClass, list[Outcome]]:
    """The users' requests, each class in a loop of its own so that its outcomes stay apart."""
    calls: dict[QosClass, list[Call]] = {qos_class: [] for qos_class in MIX}
    for number, planned in enumerate(load):
        calls[planned.qos_class].append(call(planned, number, key, tag, TIERS[planned.qos_class]))
    async with HttpClient(running.base_url) as client:
        loops = [open_loop(client.send, calls[qos_class], load[-1].at_s + DRAIN_S) for qos_class in MIX]
        return dict(zip(MIX, await asyncio.gather(*loops), strict=True))


def measure_step(running: Stack, keys: Mapping[str, str], load: Sequence[Planned], content: bytes, tag: str) -> Step:
    """Users, a batch, or both; either may be empty."""
    batch = Batch(running, keys["batches"], content) if content else None
    if batch is not None:
        time.sleep(WARM_S)
    began_s = time.time()
    seconds = load[-1].at_s
    users: Mapping[QosClass, Sequence[Outcome]] = {}
    if tag != "batch alone":
        users = asyncio.run(send_users(running, keys["users"], load, tag))
    else:
        time.sleep(seconds)
    ended_s = began_s + seconds
    if batch is not None:
        batch.cancel()
    time.sleep(2)  # until the last rows are written
    return Step(users, answered(running, began_s, ended_s) / seconds)


def figures(capacity: float, steps: Mapping[str, Sequence[Step]], user_rate: float) -> list[dict[str, Any]]:
    """A row for each step."""
    alone = _ttfts(steps["users alone"])
    rows = []
    for name, some in steps.items():
        ttfts = _ttfts(some)
        row: dict[str, Any] = {"step (simulated engines)": name}
        for qos_class in MIX:
            label = qos_class.value.upper()
            for share, word in ((0.5, "p50"), (0.99, "p99")):
                found = 1000 * quantile(ttfts[qos_class], share) if ttfts[qos_class] else ""
                row[f"{label} TTFT {word} ms"] = found
                reference = 1000 * quantile(alone[qos_class], share)
                row[f"{label} {word}, times alone"] = found / reference if found else ""
        row["users answered"] = sum(one.is_ok for step in some for many in step.users.values() for one in many)
        row["users failed"] = sum(not one.is_ok for step in some for many in step.users.values() for one in many)
        rate = sum(step.batch_rate for step in some) / len(some)
        row["batch answers/s"] = rate
        row["all answers, times capacity"] = (rate + (user_rate if ttfts[QosClass.P1] else 0)) / capacity
        rows.append(row)
    return rows


def _ttfts(steps: Sequence[Step]) -> dict[QosClass, list[float]]:
    return {
        qos_class: [
            one.ttft_s
            for step in steps
            for one in step.users.get(qos_class, ())
            if one.is_ok and one.ttft_s is not None
        ]
        for qos_class in MIX
    }


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args(arguments)
    sizes = ("--engine", "simulator", "--sim-profile", PROFILE, "--no-flower", "--workers", str(WORKERS), "--bulk", "1")
    environ = {**ENVIRON, "SLUICE_QUEUE_DEADLINE_P2_MS": "600000", "SLUICE_MAX_NUM_BATCHED_TOKENS": str(STEP_TOKENS)}
    lengths = azure.load()
    steps: dict[str, list[Step]] = {"users alone": [], "users with a batch": [], "batch alone": []}
    with (
        tempfile.TemporaryDirectory() as directory,
        stack.start(Path(directory) / "data", *sizes, environ=environ) as running,
    ):
        keys = running.add_tenants({"users": {"best_class": QosClass.P0.value}, "batches": {}})
        capacity = asyncio.run(measure_capacity(running, keys["users"], lengths))
        requests = int(PLENTY * capacity * (options.seconds + WARM_S))
        for number in range(options.rounds):
            load = users_plan(lengths, LOAD * capacity, options.seconds, SEED + number)
            print(f"  {capacity:.2f} requests/s are capacity, {len(load)} of users", file=sys.stderr)
            for name, found in steps.items():
                content = b"" if name == "users alone" else batch_file(lengths, requests, f"{name}-{number}", number)
                found.append(measure_step(running, keys, load, content, name))
    rows = figures(capacity, steps, LOAD * capacity)
    command = f"bulk --seconds {options.seconds:g} --rounds {options.rounds}"
    write("bulk", f'make bench ARGS="{command}"', rows, [{"capacity, requests/s": capacity}])
