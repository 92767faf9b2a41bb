"""The supervisor over small scripts: what it restarts, what it gives up, how it stops."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import is_alive, mentioning, wait_until

from gateway_admin.supervisor.ports import free_port
from gateway_admin.supervisor.strays import read_records

pytestmark = pytest.mark.chaos

STAND_IN = Path(__file__).with_name("stand_in.py")
ROOT = STAND_IN.parents[3]

# Answers every request with 200, so that it is ready at once.
FRONT = """
import http.server
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"reasons": []}')
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
"""


def script(name: str, text: str, **more: str) -> dict[str, str]:
    return {"name": name, "script": text, **more}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    started: list[subprocess.Popen[str]] = []

    def launch(*units: dict[str, str]) -> "subprocess.Popen[str]":
        port = free_port(random.Random())
        front = {"name": "front", "python": FRONT.replace("PORT", str(port)), "stage": "GATEWAYS"}
        process = subprocess.Popen(
            [sys.executable, str(STAND_IN), str(tmp_path), str(port), json.dumps([front, *units])],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        started.append(process)
        return process

    yield launch
    for process in started:
        process.kill()
        process.communicate()


def wait_up(directory: Path) -> None:
    wait_until((directory / "up").exists, "everything is up")


def pid_of(directory: Path, name: str) -> int:
    return next((record.pid for record in read_records(directory) if record.name == name), 0)


def stop(process: "subprocess.Popen[str]") -> str:
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=30)
    return output


def test_a_killed_child_is_started_again_and_the_console_says_why(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    process = start(script("worker", "echo last words; sleep 600"))
    wait_up(tmp_path)
    first = pid_of(tmp_path, "worker")
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: pid_of(tmp_path, "worker") not in (0, first), "the worker runs again")
    output = stop(process)
    assert process.returncode == 0
    assert "worker was killed by SIGKILL (last words); starting it again in 0.2 s" in output


def test_a_start_is_given_up_after_five_failures_with_the_tail_of_the_log(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    process = start(script("engine", "echo no memory; exit 3"), script("later", "sleep 600", after="engine never"))
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert output.count("engine ended with exit code 3 (no memory); starting it again") == 4
    assert "could not start: engine ended with exit code 3. Its log ends with:\nno memory" in output
    assert mentioning(tmp_path) == []


def test_stages_stop_in_order(tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]) -> None:
    order = tmp_path / "order"
    stages = ["VALKEY", "WORKERS", "FLOWER", "SETTLEMENT", "GATEWAYS"]
    units = [
        script(stage.lower(), f"trap 'echo {stage} >> {order}; exit 0' TERM; while :; do sleep 0.05; done", stage=stage)
        for stage in stages
    ]
    process = start(*units)
    wait_up(tmp_path)
    stop(process)
    assert order.read_text().split() == ["GATEWAYS", "WORKERS", "SETTLEMENT", "FLOWER", "VALKEY"]


def test_one_that_does_not_listen_is_killed_with_all_that_it_started(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    helpers = tmp_path / "helpers"
    deaf = f"trap '' TERM; sleep 601 & echo $! >> {helpers}; setsid sleep 602 & echo $! >> {helpers}; wait; sleep 603"
    process = start(script("deaf", deaf))
    wait_up(tmp_path)
    wait_until(lambda: helpers.exists() and len(helpers.read_text().split()) == 2, "both helpers run")
    output = stop(process)
    assert "deaf did not stop in time: killed" in output
    assert not any(is_alive(int(pid)) for pid in helpers.read_text().split())


def test_a_second_request_stops_at_once(tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]) -> None:
    process = start(script("deaf", "trap '' TERM; while :; do sleep 600; done", stage="GATEWAYS"))
    wait_up(tmp_path)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: not is_alive(pid_of(tmp_path, "front")), "the first stage was asked")
    time.sleep(0.5)  # nearer together they count as one
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert "did not stop in time" not in output
    assert process.returncode == 0


def test_what_a_dead_child_left_in_its_group_is_ended(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    helper = tmp_path / "helper"
    process = start(script("worker", f"sleep 604 & echo $! > {helper}; sleep 605"))
    wait_up(tmp_path)
    wait_until(lambda: helper.exists() and helper.read_text().strip(), "the helper runs")
    left = int(helper.read_text())
    os.kill(pid_of(tmp_path, "worker"), signal.SIGKILL)
    wait_until(lambda: not is_alive(left), "the helper is ended")
    stop(process)


def test_children_do_not_outlive_a_killed_supervisor(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    process = start(script("worker", "exec sleep 606"))
    wait_up(tmp_path)
    children = [record.pid for record in read_records(tmp_path)]
    assert len(children) == 2
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(is_alive, children)), "all children are gone")


def test_a_unit_that_joins_delays_nothing_and_is_told_when_it_is_up(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    before, late = tmp_path / "before", tmp_path / "late"
    wait = f"while ! test -e {tmp_path}/go; do sleep 0.1; done; touch {late}; sleep 60"
    process = start(
        script("first", "sleep 60"),
        script("before", f"touch {before}; sleep 60", joins="", up_file=str(before)),
        script("joining", wait, joins="", up_file=str(late), after="before"),
    )
    wait_up(tmp_path)
    assert not late.exists()
    wait_until(lambda: pid_of(tmp_path, "joining"), "it is started")
    (tmp_path / "go").touch()
    assert process.stdout
    assert any("joining: up" in line for line in iter(process.stdout.readline, ""))


def test_a_joining_unit_that_keeps_dying_ends_nothing(
    tmp_path: Path, start: Callable[..., "subprocess.Popen[str]"]
) -> None:
    process = start(script("first", "sleep 60"), script("joining", f"echo x >> {tmp_path}/deaths; exit 1", joins=""))
    wait_up(tmp_path)
    wait_until(lambda: (tmp_path / "deaths").exists() and len((tmp_path / "deaths").read_text()) > 2, "it dies twice")
    assert process.poll() is None
    assert is_alive(pid_of(tmp_path, "first"))
