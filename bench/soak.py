"""The soak: mixed load, and every few seconds a process killed with SIGKILL; afterwards all books must agree.

Two gateways, two workers on the simulated engine, two bulk processes, settlement and a Valkey with persistence, started
as ``make up`` does it. Six tenants, with and without limits, send streams and whole answers, leave in the middle,
repeat with idempotency keys, and send what is wrong; a seventh has one batch after the other worked off. In turns a
gateway, a worker, a bulk process, the store and settlement are killed, each kind as often as the others.

When all has come to rest, the clients' own book, the usage rows, the store's counters and the engines' journals are
held against each other (``soak_check``). A difference is a failure; the exit status says so.

``make bench ARGS="soak [--minutes 20] [--rate 18] [--kill-every 15]"``
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from bench.report import RESULTS, machine, table
from bench.soak_batches import TENANT, Batch, BatchClient
from bench.soak_books import Row, read_journal, read_rows
from bench.soak_check import Books, Check, Plans, reconciled
from bench.soak_load import MODEL, Attempt, Clients
from tests import stack
from tests.stack import ROOT, Stack, wait_until

SEED = 11
TENANTS = 6
REST_S, START_S = 120.0, 60.0
PARTS = {
    "gateway": "gateway_admin.serve",
    "worker": "celeryd: worker-",
    "store": "valkey-server",
    "settlement": "workers.settlement",
    "bulk": "celeryd: bulk-",
}
_ADD_PRICE = """
import os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_admin.settings"
import django
django.setup()
from tenants.models import Price
price = {"input_per_million": "1.5", "cached_input_per_million": "0.375", "output_per_million": "6.125"}
Price.objects.create(model=sys.argv[1], **price)
Price.objects.create(model=sys.argv[1], qos_class="p2", **{name: "1.001" for name in price})
"""


def plans_for(requests: float) -> Plans:
    """One plan a tenant; each tenant will ask about so many requests, which for two of them is too much."""
    third = max(1, round(requests / 3))
    return {
        "soak-open": {},
        "soak-kept": {"retention_hours": 1},
        "soak-urgent": {"best_class": "p0", "cost_per_month": "1000000"},
        "soak-patient": {"best_class": "p2"},
        "soak-narrow": {"requests_per_minute": 100, "tokens_per_minute": 15_000, "max_concurrent": 4},
        "soak-capped": {"requests_per_day": third, "tokens_per_month": third * 50},
    }


@dataclass(slots=True)
class Soaked:
    """What a soak left."""

    attempts: list[Attempt]
    batches: list[Batch]
    kills: Counter[str]
    rows: list[Row] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    @property
    def differences(self) -> list[str]:
        """Of all checks."""
        return [f"{check.identity}: {one}" for check in self.checks for one in check.differences]


def environ_for(journal: Path) -> dict[str, str]:
    """Settings: engines keep a journal, and nothing that differs is put right before it is looked at."""
    return {"SLUICE_SIM_JOURNAL": str(journal), "SLUICE_RECONCILE_INTERVAL_S": "0"}


def soak(running: Stack, journal: Path, seconds: float, rate: float, kill_every_s: float) -> Soaked:
    """Load, kill, wait for rest, compare."""
    run_manage(running, "-c", _ADD_PRICE, MODEL)
    plans = plans_for(seconds * rate / TENANTS)
    keys = running.add_tenants(plans | {TENANT: {}})  # its gateways know the prices by then too
    batches = BatchClient(running.base_url, keys.pop(TENANT), SEED)
    clients = Clients(running.base_url, keys, SEED)
    kills = asyncio.run(_load_and_kill(running, clients, batches, seconds, rate, kill_every_s))
    found = Soaked(clients.book.attempts, batches.batches, kills)
    wait_until(lambda: _is_at_rest(running), REST_S, "requests were never settled")
    found.rows = read_rows(running, [*keys, TENANT])
    books = Books(running, found.attempts, found.batches, found.rows, plans, read_journal(journal))
    found.checks = books.checks()
    found.checks.append(reconciled(json.loads(run_manage(running, "manage.py", "reconcile", "--json").stdout)))
    return found


def run_manage(running: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with the instance's settings, in the repository; 1 is a status too: something differs."""
    environ = {**os.environ, "SLUICE_DATA_DIR": str(running.data_dir)}
    done = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environ, capture_output=True, text=True)
    if done.returncode > 1:
        raise RuntimeError(done.stderr)
    return done


async def _load_and_kill(
    running: Stack, clients: Clients, batches: BatchClient, seconds: float, rate: float, kill_every_s: float
) -> Counter[str]:
    async with asyncio.TaskGroup() as group:
        killing = group.create_task(_kill(running, kill_every_s, time.monotonic() + seconds))
        group.create_task(clients.run(seconds, rate))
        group.create_task(batches.run(seconds))
    return killing.result()


async def _kill(running: Stack, every_s: float, until_s: float) -> Counter[str]:
    """Kill a process of each kind in turns, the turns in random order, while load is sent."""
    chance, kills, bag = random.Random(SEED), Counter[str](), list[str]()
    while time.monotonic() + every_s < until_s:
        await asyncio.sleep(every_s)
        bag = bag or chance.sample(sorted(PARTS), len(PARTS))
        kind = bag.pop()
        chance.choice(await _found(running, kind)).kill()
        kills[kind] += 1
    return kills


async def _found(running: Stack, kind: str) -> list[psutil.Process]:
    """Processes of a kind, once there is one: the last may still be starting."""
    found: list[psutil.Process] = await asyncio.to_thread(
        wait_until, lambda: running.children(PARTS[kind]), START_S, f"no {kind} came back"
    )
    return found


def _is_at_rest(running: Stack) -> bool:
    return running.leftovers() == {} and running.store().xlen("sl:settle") == 0


# --- the report ------------------------------------------------------------------------------------------------------


def outcome_of(attempt: Attempt) -> str:
    """What came of an attempt, as its client sees it."""
    if attempt.is_complete:
        return "answer given again" if attempt.original_id else "answered"
    if attempt.error:
        return f"{attempt.status} {attempt.error.get('reason') or attempt.error.get('code')}"
    if attempt.status == 200 and attempt.ended == "whole":
        return "ended with an error event"
    return {"left": "left by the client", "broken": "broke off", "unanswered": "broke off unanswered"}[attempt.ended]


def report(found: Soaked, command: str, seconds: float) -> None:
    """Write results/soak.md and results/soak.json."""
    at = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    outcomes = Counter(outcome_of(attempt) for attempt in found.attempts)
    rows = Counter(row.outcome for row in found.rows)
    amounts = ("prompt", "cached", "completion", "cost_nano")
    tables: dict[str, Sequence[Mapping[str, Any]]] = {
        "What must hold": [
            {"identity": one.identity, "held against": one.looked_at, "differences": len(one.differences)}
            for one in found.checks
        ],
        "Killed": [{"process": kind, "times": number} for kind, number in sorted(found.kills.items())],
        "What clients got": [{"outcome": name, "attempts": number} for name, number in outcomes.most_common()],
        "Usage rows": [{"outcome": name, "rows": number} for name, number in rows.most_common()],
        "Sums": [{"of": name, "sum": sum(getattr(row, name) for row in found.rows)} for name in amounts],
    }
    facts = {"command": command, "at": at, "machine": machine(), "seconds": seconds, "engine": "simulator"}
    text = f"`{command}`, {at}, {machine()}\n\nThe engines are simulators. {len(found.attempts)} requests in "
    results = sum(len(batch.results) for batch in found.batches)
    text += f"{seconds:g} s, and {results} in {len(found.batches)} batches; "
    text += f"{found.kills.total()} kills, {len(found.rows)} usage rows, "
    text += f"{len(found.differences)} differences.\n"
    text += "".join(f"\n## {name}\n\n{table(lines)}\n" for name, lines in tables.items() if lines)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "soak.md").write_text(text)
    result = {**facts, **tables, "differences": found.differences}
    (RESULTS / "soak.json").write_text(json.dumps(result, indent=1) + "\n")
    print(text, *found.differences[:50], sep="\n")


def main(arguments: list[str]) -> None:
    """Soak and write the results; exits with 1 if any book differs from another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--rate", type=float, default=18, help="requests a second")
    parser.add_argument("--kill-every", type=float, default=15, help="seconds between two kills")
    options = parser.parse_args(arguments)
    sizes = ("--engine", "simulator", "--sim-profile", "zero", "--no-flower", "--gateways", "2", "--workers", "2")
    sizes = (*sizes, "--bulk", "2")
    with tempfile.TemporaryDirectory() as directory:
        journal = Path(directory) / "journal.jsonl"
        with stack.start(Path(directory) / "data", *sizes, environ=environ_for(journal)) as running:
            found = soak(running, journal, options.minutes * 60, options.rate, options.kill_every)
    command = f"soak --minutes {options.minutes:g} --rate {options.rate:g} --kill-every {options.kill_every:g}"
    report(found, f'make bench ARGS="{command}"', options.minutes * 60)
    if found.differences:
        sys.exit(1)
