"""Hit rates of eviction policies on blocks of real traces, and under keys that come once.

``make bench ARGS="eviction"``. The cache holds 1, 5 and 20 % of the distinct keys. "w11" and "ghost" run as in a
gateway: the same code looks at the same figures every five seconds of the trace.
"""

import argparse
import random
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from typing import Any

from bench.eviction_picture import plot
from bench.report import RESULTS, write
from bench.workloads import blocks
from bench.workloads.blocks import Ask, key_of
from domain.eviction.best import best_hits
from domain.eviction.ghost import Ghosts
from domain.eviction.k_rule import Seen
from domain.eviction.named import NAMES, change, make_policy
from domain.eviction.policy import Key
from domain.eviction.recent import Recent, Sample
from domain.eviction.tuning import GHOST, RULE, Tuning

SHARES = (0.01, 0.05, 0.20)
BEST = "best possible"
ARMS = (*NAMES, RULE, GHOST, BEST)
LOOK_S = 5.0
# Requests an hour of the sparse trace, the part of them that never comes again, and the keys of all others.
SPARSE_REQUESTS, SPARSE_ONCE, SPARSE_KEYS, SPARSE_SKEW = 200_000, 0.85, 3_000, 0.9
SEED = 1


class Cache:
    """A cache of so many keys that follows a setting as the first level does."""

    def __init__(self, setting: str, capacity: int) -> None:
        self.hits = self.asked = self.changes = 0
        self._capacity = capacity
        self._held: set[Key] = set()
        # What the ghosts say is asked for by one setting only; the others need what repeats, and no more.
        ghosts = Ghosts(capacity, NAMES if setting == GHOST else ())
        self._tuning = Tuning(setting, ghosts) if setting not in NAMES else None
        self._policy = make_policy(self._tuning.policy if self._tuning else setting)
        self._recent = Recent()
        self._next_look_s = 0.0

    def ask(self, ask: Ask) -> bool:
        """Ask for a key; whether it was there. It is afterwards."""
        self.asked += 1
        if self._tuning is not None:
            self._tuning.ghosts.ask(ask.key)
            if ask.at_s >= self._next_look_s:
                self._look(self._tuning, ask.at_s)
        if ask.key in self._held:
            self.hits += 1
            self._policy.hit(ask.key)
            return True
        if len(self._held) >= self._capacity:
            self._held.remove(self._policy.evict())
        self._policy.admit(ask.key)
        self._held.add(ask.key)
        return False

    def _look(self, tuning: Tuning, now_s: float) -> None:
        self._next_look_s = now_s + LOOK_S
        ghosts, used = tuning.ghosts, len(self._held) / self._capacity
        self._recent.add(Sample(now_s, used, self.hits, self.asked, ghosts.firsts))
        seen = Seen(self._recent.watermark(), self._recent.hit_rate(), self._recent.ceiling(), 0.0)
        decision = tuning.look(seen, now_s)
        if decision is not None:
            self.changes += 1
            self._policy = change(self._policy, decision.after)


def sparse() -> list[Ask]:
    """An hour of keys of which 85 % come once; the others come again, some much more often than others."""
    draw = random.Random(SEED)
    weights = [1 / (rank + 1) ** SPARSE_SKEW for rank in range(SPARSE_KEYS)]
    again = iter(draw.choices(range(SPARSE_KEYS), weights, k=SPARSE_REQUESTS))
    return [
        Ask(place * 3600 / SPARSE_REQUESTS, key_of(SPARSE_KEYS + place if draw.random() < SPARSE_ONCE else next(again)))
        for place in range(SPARSE_REQUESTS)
    ]


@cache
def load(trace: str) -> list[Ask]:
    """A trace by its name."""
    return sparse() if trace == "sparse" else blocks.load(trace)


def measure(trace: str, share: float, arm: str) -> dict[str, Any]:
    """One cell: hits of all requests."""
    asks, begun = load(trace), time.process_time()
    capacity = max(1, int(len({ask.key for ask in asks}) * share))
    found = {"trace": trace, "share": share, "keys": capacity, "arm": arm, "requests": len(asks)}
    if arm == BEST:
        hits, changes = best_hits([ask.key for ask in asks], capacity), 0
    else:
        cache = Cache(arm, capacity)
        for ask in asks:
            cache.ask(ask)
        hits, changes = cache.hits, cache.changes
    return {**found, "hits": hits, "changes": changes, "cpu_s": round(time.process_time() - begun, 2)}


def summarise(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each trace and size: hit rates in per cent, and how the two rules compare."""
    rows = []
    for trace, share in dict.fromkeys((run["trace"], run["share"]) for run in runs):
        cell = [run for run in runs if (run["trace"], run["share"]) == (trace, share)]
        rates = {run["arm"]: 100 * run["hits"] / run["requests"] for run in cell}
        best_single = max(rates[name] for name in NAMES)
        rows.append(
            {
                "trace": trace,
                "cache": f"{share:.0%}",
                **{arm: f"{rates[arm]:.1f}" for arm in ARMS},
                "ghost / best single": f"{rates[GHOST] / best_single:.3f}",
                "ghost / w11": f"{rates[GHOST] / rates[RULE]:.2f}",
            }
        )
    return rows


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", nargs="+", default=[*blocks.NAMES, "sparse"])
    parser.add_argument("--arms", nargs="+", default=list(ARMS), choices=ARMS)
    parser.add_argument("--processes", type=int, default=2, help="that measure at once")
    options = parser.parse_args(arguments)
    cells = [(trace, share, arm) for trace in options.traces for share in SHARES for arm in options.arms]
    runs = []
    with ProcessPoolExecutor(options.processes) as pool:
        for run in pool.map(measure, *zip(*cells, strict=True)):
            runs.append(run)
            print(f"  {run}", file=sys.stderr, flush=True)
    if set(options.arms) == set(ARMS):
        command = f'make bench ARGS="{" ".join(["eviction", *arguments])}"'
        rows = summarise(runs)
        write("eviction", command, rows, runs)
        plot(rows, RESULTS / "eviction.svg")
