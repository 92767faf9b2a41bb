"""What the gateway costs an engine: Sluice against vLLM's own server, and against one request at a time.

Both hold the same model with the same settings in the same float32 on the same machine; only one is under load at a
time, in turns (A B A B), every prompt is different, every answer has the same number of tokens. Ratios of medians.

``make bench ARGS="engine [--rounds 3]"``
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from django.conf import settings

from bench.load import Result, Target, load, median
from bench.report import write
from tests import stack
from tests.acceptance import vllm_server

TOKENS = 64
# How many requests at once, and how many in all: whole waves, so that no window cuts one.
LOADS = {1: 4, 8: 24, 32: 64}
BOUND_S = 300.0
BODY = json.dumps({"ignore_eos": True, "min_tokens": TOKENS, "temperature": 0})


@contextmanager
def sluice(directory: Path) -> Iterator[Target]:
    """Sluice with the real engine."""
    with stack.start(directory / "data", "--engine", "vllm", "--no-flower") as running:
        yield Target("sluice", running.base_url, running.api_key, settings.SLUICE.model_name)


@contextmanager
def vllm(directory: Path) -> Iterator[Target]:
    """vLLM's own server with the arguments that our engine gets."""
    with vllm_server.start(directory) as url:
        yield Target("vllm", url, "none", settings.SLUICE.model_name)


def measure(targets: list[Target], rounds: int) -> list[Result]:
    """Streams at each concurrency on each target, in turns."""
    runs = []
    for number in range(rounds):
        for concurrency, requests in LOADS.items():
            for target in targets if number % 2 == 0 else targets[::-1]:
                options = ["--stream", "--unique", "--max-tokens", str(TOKENS), "--warmup", "0", "--timeout", "120"]
                options += ["--max-requests", str(requests)]
                run = load(target, concurrency, BOUND_S, *options, body=BODY)
                run["tokens_per_s"] = requests * TOKENS / run["duration_s"]
                runs.append(run)
                print(f"  {target.name} c={concurrency}: {run['tokens_per_s']:.0f} tokens/s", file=sys.stderr)
    return runs


def summarise(runs: list[Result]) -> list[dict[str, Any]]:
    """A row for each concurrency: both, their ratio, and the gain over one at a time."""

    def of(name: str, concurrency: int) -> list[Result]:
        return [run for run in runs if run["label"] == name and run["concurrency"] == concurrency]

    alone = median(of("sluice", 1), "tokens_per_s")
    rows = []
    for concurrency in LOADS:
        ours, theirs = of("sluice", concurrency), of("vllm", concurrency)
        rows.append(
            {
                "at once": concurrency,
                "Sluice tokens/s": median(ours, "tokens_per_s"),
                "vLLM tokens/s": median(theirs, "tokens_per_s"),
                "ratio": median(ours, "tokens_per_s") / median(theirs, "tokens_per_s"),
                "times one at a time": median(ours, "tokens_per_s") / alone,
                "Sluice TTFT p50 ms": median(ours, "ttft_p50"),
                "vLLM TTFT p50 ms": median(theirs, "ttft_p50"),
                "Sluice TTFT p99 ms": median(ours, "ttft_p99"),
                "vLLM TTFT p99 ms": median(theirs, "ttft_p99"),
            }
        )
    return rows


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, ExitStack() as started:
        targets = [started.enter_context(sluice(Path(name))), started.enter_context(vllm(Path(name)))]
        runs = measure(targets, options.rounds)
    write("engine", f'make bench ARGS="engine {" ".join(arguments)}"', summarise(runs), runs)
