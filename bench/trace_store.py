"""Finding one request among a million, or ten: every kind of look-up, and the pages that operators open.

Each database is fresh and filled with requests of seven days. A figure is the median and the worst of ``--rounds``
look-ups of different requests; a page is asked of Django itself, without network and browser.

``make bench ARGS="trace_store [--sqlite 1000000] [--postgres 10000000] [--rounds 30]"``
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.report import write
from tests.stack import ROOT
from tools.postgres import cluster

GOAL_LOOKUP_MS, GOAL_PAGE_MS = 50, 1_000
HOUR_US = 3_600_000_000

Found = dict[str, dict[str, float]]


def measure(rows: int, rounds: int, path: Path) -> None:
    """Fill the database that the environment names, measure, and write the figures as JSON."""
    import django

    django.setup()
    from django.core.management import call_command

    from bench.trace_rows import fill

    call_command("migrate", interactive=False, verbosity=0)
    started = time.perf_counter()
    fill(rows)
    print(f"  {rows} requests in {time.perf_counter() - started:.0f} s", file=sys.stderr)
    path.write_text(json.dumps({**_lookups(rows, rounds), **_pages(rows)}))


def _lookups(rows: int, rounds: int) -> Found:
    from bench.trace_rows import BATCH, request_id
    from tracing.store.reading import Selection, batch_mates, find, find_one

    dice, now = random.Random(2), time.time_ns() // 1000
    numbers = [dice.randrange(rows) for _ in range(rounds)]

    def known(number: int) -> Any:
        row = find_one(request_id(number))
        assert row is not None
        return row

    ways: dict[str, Callable[[int], Any]] = {
        "request id": known,
        "beginning of a request id": lambda number: find(Selection(text=request_id(number)[:13])),
        "trace id": lambda number: find(Selection(text=request_id(number).replace("-", "")[:12] + f"{number:020x}")),
        "batch id": lambda number: find(Selection(text=f"b-{number // BATCH:012x}")),
        "batch mates": lambda number: batch_mates(known(number)),
        "model version": lambda number: find(Selection(model_version=f"1.0.{number % 3}-0123456789ab")),
        "tenant": lambda number: find(Selection(tenant=f"tenant-{number % 200}")),
        "tenant in an hour": lambda number: find(
            Selection(tenant=f"tenant-{number % 20}", from_us=now - (number % 160 + 1) * HOUR_US, to_us=now)
        ),
        "an hour": lambda number: find(
            Selection(from_us=now - (number % 160 + 1) * HOUR_US, to_us=now - number % 160 * HOUR_US)
        ),
        "outcome": lambda number: find(Selection(outcome=("failed", "completed")[number % 2])),
        "server errors": lambda number: find(Selection(errors_only=True, tenant=f"tenant-{number % 20}")),
    }
    return {f"look-up: {name}": _timed([partial(way, number) for number in numbers]) for name, way in ways.items()}


def _pages(rows: int) -> Found:
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from bench.trace_rows import request_id

    client = Client()
    client.force_login(User.objects.create_superuser("bench", password="bench"))
    pages = {
        "traces": reverse("traces"),
        "trace": reverse("trace", args=[request_id(rows // 2)]),
        "why slow, 24 hours": f"{reverse('why-slow')}?period=1440",
        "heat map": reverse("heat-map"),
        "now": reverse("now-state"),
        "service map": reverse("service-map"),
    }

    def opened(address: str) -> None:
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)

    return {f"page: {name}": _timed([partial(opened, address)] * 5) for name, address in pages.items()}


def _timed(calls: Sequence[Callable[[], Any]]) -> dict[str, float]:
    times = []
    for call in calls:
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return {"p50": statistics.median(times), "worst": max(times), "first": times[0]}


def _measured(name: str, rows: int, rounds: int) -> Found:
    """Measure in a process of its own, on a database of its own."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "found.json"
        own = [sys.executable, "-m", "bench.trace_store", str(rows), str(rounds), str(path)]
        environ = {**os.environ, "SLUICE_DATA_DIR": directory}
        if name == "SQLite":
            subprocess.run(own, check=True, cwd=ROOT, env=environ)
        else:
            with cluster("shared_buffers=256MB") as url:
                subprocess.run(own, check=True, cwd=ROOT, env={**environ, "SLUICE_DATABASE_URL": url})
        found: Found = json.loads(path.read_text())
        return found


def main(arguments: list[str]) -> None:
    """Measure on both databases, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sqlite", type=int, default=1_000_000)
    parser.add_argument("--postgres", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args(arguments)
    sizes = {"SQLite": options.sqlite, "Postgres": options.postgres}
    found = {name: _measured(name, rows, options.rounds) for name, rows in sizes.items() if rows}
    rows = []
    for name, figures in found.items():
        for what, times in figures.items():
            goal = GOAL_PAGE_MS if what.startswith("page") else GOAL_LOOKUP_MS
            rows.append(
                {
                    "database": name,
                    "requests": sizes[name],
                    "what": what,
                    **{f"{part} ms": times[part] for part in ("p50", "worst", "first")},
                    "goal ms": goal,
                    "met": "yes" if times["p50"] < goal else "NO",
                }
            )
    command = f"trace_store --sqlite {options.sqlite} --postgres {options.postgres} --rounds {options.rounds}"
    write("trace_store", f'make bench ARGS="{command}"', rows, rows)


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")
    measure(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
