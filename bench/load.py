"""Runs the load generator in a process of its own and reads its JSON."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GENERATOR = Path(__file__).parent / "tools" / "loadgen.py"
Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """A server under load: its name, base URL ending in /v1, key, model, and the processes whose CPU counts."""

    name: str
    url: str
    key: str
    model: str
    pids: tuple[int, ...] = ()


def load(target: Target, concurrency: int, duration_s: float, *options: str, body: str = "") -> Result:
    """Put load on a target for ``duration_s`` and return what the generator measured (ms, requests/s, tokens/s).

    Raises:
        RuntimeError: requests failed.
    """
    command = [sys.executable, str(GENERATOR), "--url", target.url, "--key", target.key, "--model", target.model]
    command += ["--concurrency", str(concurrency), "--duration", str(duration_s), "--label", target.name, *options]
    command += [part for pid in target.pids for part in ("--pid", str(pid))]
    command += ["--extra-body", body] if body else []
    result: Result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    del result["url"]  # a port of the day
    if result["errors"]:
        raise RuntimeError(f"{target.name}: {result['error_kinds']}: {result.get('first_error')}")
    return result


def median(results: Sequence[Result], name: str) -> float:
    """Median of one figure over the rounds."""
    values = sorted(float(result[name]) for result in results)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2
