"""What length buckets save an engine that pads, against batches in the order of arrival.

Both get the same rows under the same bounds (padded tokens and rows of a pass); a row is as long as a prompt of a real
trace. Waste, 1 - real tokens / padded tokens, is counted over the whole sample; throughput, real tokens a second of
CPU, is measured on the real embedding model with some of its rows, in turns (A B A B), each round with other rows.

``make bench ARGS="padding [--rounds 3] [--rows 40]"``
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

from bench.report import write
from bench.workloads import azure
from domain.padding import LengthBuckets, PaddingMeter, Row
from workers.engines.models import minilm
from workers.engines.models.prepare import prepare

LONGEST, MAX_TOKENS, MAX_ROWS = 512, 4096, 256
# How many rows wait when a pass is chosen: one job of a client with a list, several of them, a whole corpus.
WAITING = (32, 256, 2000)
TOKEN = 2000

Passes = Iterator[list[int]]
Chooser = Callable[[Sequence[int], int], Passes]


def in_order(lengths: Sequence[int], waiting: int) -> Passes:
    """Rows in the order of arrival, as many as the bounds allow; how many wait changes nothing."""
    batch: list[int] = []
    for length in lengths:
        if len(batch) == MAX_ROWS or max([length, *batch]) * (len(batch) + 1) > MAX_TOKENS:
            yield batch
            batch = []
        batch.append(length)
    if batch:
        yield batch


def in_buckets(lengths: Sequence[int], waiting: int) -> Passes:
    """As our engine does it; ``waiting`` rows wait whenever a pass is chosen, for as long as there are more."""
    rows = iter([Row(order, length, 10, None) for order, length in enumerate(lengths)])
    buckets: LengthBuckets[None] = LengthBuckets(LONGEST, MAX_TOKENS, MAX_ROWS)
    while True:
        buckets.add(row for row, _ in zip(rows, range(waiting - len(buckets)), strict=False))
        batch = [row.length for row in buckets.take()]
        if not batch:
            return
        yield batch


CHOOSERS: dict[str, Chooser] = {"in order": in_order, "in buckets": in_buckets}


def waste(passes: Passes) -> float:
    """Share of padding in all passes."""
    meter = PaddingMeter()
    for batch in passes:
        meter.count(batch)
    return meter.waste


def mixes() -> dict[str, list[int]]:
    """Lengths in tokens; prompts that are longer than the model takes are cut to that, or left out."""
    prompts = [request.prompt for request in azure.load()]
    return {
        "cut to 512": [min(LONGEST, length) for length in prompts],
        "up to 512": [length for length in prompts if length <= LONGEST],
    }


def count_waste() -> list[dict[str, Any]]:
    """A row for each mix and number of waiting rows."""
    table = []
    for mix, lengths in mixes().items():
        for waiting in WAITING:
            found = {name: waste(choose(lengths, waiting)) for name, choose in CHOOSERS.items()}
            table.append({"lengths": mix, "waiting": waiting, **found})
    return table


def measure(rounds: int, rows: int) -> list[dict[str, Any]]:
    """Tokens a second of CPU of the real model on one core; both ways in turns, each round with other rows."""
    import torch

    from workers.engines.padded_model import PaddedModel

    torch.set_num_threads(1)
    model = PaddedModel(prepare(replace(settings.SLUICE, model=minilm.MODEL_ID), print))
    model.embed([[TOKEN] * LONGEST])
    runs = []
    for mix, lengths in mixes().items():
        for number in range(rounds):
            # From all over the trace, since neighbours in it are alike.
            part = lengths[number :: len(lengths) // rows][:rows]
            names = list(CHOOSERS) if number % 2 == 0 else list(CHOOSERS)[::-1]
            for name in names:
                begun = time.thread_time()  # one thread computes, so that what else runs here counts little
                for batch in CHOOSERS[name](part, WAITING[0]):
                    model.embed([[TOKEN] * length for length in batch])
                tokens_per_cpu_s = sum(part) / (time.thread_time() - begun)
                runs.append({"lengths": mix, "round": number, "way": name, "tokens_per_cpu_s": tokens_per_cpu_s})
                print(f"  {mix}, {name}: {tokens_per_cpu_s:.0f} tokens/CPU s", file=sys.stderr)
    return runs


def summarise(table: list[dict[str, Any]], runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Waste both ways, the ratio, and where it was measured the throughput and its gain."""
    rows = []
    for line in table:
        row = {
            "lengths": line["lengths"],
            "rows that wait": line["waiting"],
            "waste in order": line["in order"],
            "waste in buckets": line["in buckets"],
            "ratio": line["in buckets"] / line["in order"],
            **{f"{name}, tokens/CPU s": "" for name in CHOOSERS},
            "gain": "",
        }
        if line["waiting"] == WAITING[0]:
            speeds = {name: _median(runs, line["lengths"], name) for name in CHOOSERS}
            row |= {f"{name}, tokens/CPU s": speed for name, speed in speeds.items()}
            row["gain"] = speeds["in buckets"] / speeds["in order"]
        rows.append(row)
    return rows


def _median(runs: list[dict[str, Any]], mix: str, way: str) -> float:
    speeds = sorted(run["tokens_per_cpu_s"] for run in runs if run["lengths"] == mix and run["way"] == way)
    return float(speeds[len(speeds) // 2])


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=40)
    options = parser.parse_args(arguments)
    runs = measure(options.rounds, options.rows)
    write("padding", f'make bench ARGS="{" ".join(["padding", *arguments])}"', summarise(count_waste(), runs), runs)
