"""What the gateway itself costs: the simulator at no cost of time behind Sluice, a fake upstream behind LiteLLM proxy.

Both answer the same request (16 chunks) on the same machine under the same load generator, in turns. For Sluice the
CPU of everything counts: gateway, worker with its (simulated) engine, settlement and Valkey. For LiteLLM the proxy
alone counts, without its upstream. So the ratio favours LiteLLM.

``make bench ARGS="gateway_cost [--rounds 3] [--seconds 8] [--litellm PYTHON]"``; without ``--litellm`` (the python of
a virtual environment with ``litellm[proxy]==1.105.7``) only Sluice is measured.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from bench.load import Result, Target, load, median
from bench.report import write
from tests import stack

TOOLS = Path(__file__).parent / "tools"
CHUNKS = 16
UPSTREAM_PORT, LITELLM_PORT = 9101, 9102
START_S = 120.0
MODES = ((1, True), (16, True), (16, False))


@contextmanager
def sluice(directory: Path) -> Iterator[Target]:
    """Sluice on the simulator, profile "zero"."""
    data_dir = directory / "data"
    with stack.start(data_dir, "--engine", "simulator", "--sim-profile", "zero", "--no-flower") as running:
        pids = [child.pid for child in running.children("")]
        yield Target("sluice", running.base_url, running.api_key, "smollm2-135m-instruct", tuple(pids))


@contextmanager
def litellm(python: str, directory: Path) -> Iterator[Target]:
    """LiteLLM proxy in front of the fake upstream."""
    upstream = directory / "fake_upstream"
    subprocess.run(["gcc", "-O2", "-o", str(upstream), str(TOOLS / "fake_upstream.c")], check=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    proxy = [str(Path(python).parent / "litellm"), "--config", str(TOOLS / "litellm.yaml"), "--num_workers", "1"]
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
    }
    with ExitStack() as started:
        for command, env in (
            ([str(upstream), "-p", str(UPSTREAM_PORT), "-n", str(CHUNKS)], None),
            ([*proxy, "--host", "127.0.0.1", "--port", str(LITELLM_PORT)], environ),
        ):
            process = started.enter_context(subprocess.Popen(command, env=env, **quiet))  # type: ignore[call-overload]  # mypy cannot see through **quiet
            started.callback(process.terminate)
        target = Target("litellm", f"http://127.0.0.1:{LITELLM_PORT}/v1", "sk-master-1234", "fake", (process.pid,))
        wait_for(target)
        yield target


def wait_for(target: Target) -> None:
    """Wait until the target lists its models.

    Raises:
        RuntimeError: it did not within two minutes.
    """
    request = urllib.request.Request(f"{target.url}/models", headers={"authorization": f"Bearer {target.key}"})
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(request, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"{target.name} did not start")


def measure(targets: list[Target], rounds: int, seconds: float) -> list[Result]:
    """All modes on all targets, in turns."""
    runs = []
    for _ in range(rounds):
        for concurrency, stream in MODES:
            for target in targets:
                options = ["--max-tokens", str(CHUNKS), *(["--stream"] if stream else [])]
                body = json.dumps({"metadata": {"sim": f"tokens={CHUNKS}"}}) if target.name == "sluice" else ""
                runs.append(load(target, concurrency, seconds, *options, body=body))
                print(f"  {target.name} c={concurrency} stream={stream}: {runs[-1]['rps']} requests/s", file=sys.stderr)
    return runs


def summarise(runs: list[Result]) -> list[dict[str, Any]]:
    """One row for each mode and target, with the CPU of LiteLLM as a multiple of ours."""
    rows: list[dict[str, Any]] = []
    for concurrency, stream in MODES:
        of_mode = [run for run in runs if run["concurrency"] == concurrency and run["stream"] is stream]
        names = list(dict.fromkeys(run["label"] for run in of_mode))
        ours = median([run for run in of_mode if run["label"] == "sluice"], "cpu_ms_per_req")
        for name in names:
            mine = [run for run in of_mode if run["label"] == name]
            cpu = median(mine, "cpu_ms_per_req")
            rows.append(
                {
                    "gateway": name,
                    "mode": f"{'stream of 16 chunks' if stream else 'one JSON'}, {concurrency} at once",
                    "requests/s": median(mine, "rps"),
                    "requests/s per core": 1000 / cpu,
                    "CPU ms a request": cpu,
                    "p50 ms": median(mine, "p50"),
                    "p99 ms": median(mine, "p99"),
                    "RSS MB": median(mine, "rss_mb"),
                    "CPU, times Sluice's": cpu / ours,
                }
            )
    return rows


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--litellm", default="")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name, ExitStack() as started:
        targets = [started.enter_context(sluice(Path(name)))]
        if options.litellm:
            targets.append(started.enter_context(litellm(options.litellm, Path(name))))
        runs = measure(targets, options.rounds, options.seconds)
    command = f"gateway_cost --rounds {options.rounds} --seconds {options.seconds:g} --litellm PYTHON"
    write("gateway_cost", f'make bench ARGS="{command}"', summarise(runs), runs)
