"""``manage.py up`` and ``down`` with all processes of the product, on the simulator."""

import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from instance_process import ROOT, InstanceProcess
from processes import is_alive, mentioning, wait_until

from gateway_admin.supervisor.lock import holder
from gateway_admin.supervisor.ports import free_port, is_free, listen
from gateway_admin.supervisor.strays import read_records

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InstanceProcess]:
    instance = InstanceProcess(tmp_path_factory.mktemp("up") / "data")
    try:
        yield instance.wait_ready()
        assert instance.stop() == 0
        assert_nothing_left(instance)
    finally:
        instance.process.kill()
        instance.process.wait()


@pytest.fixture
def data_dir(tmp_path: Path) -> Iterator[Path]:
    directory = tmp_path / "data"
    yield directory
    pid = holder(directory)
    if pid:
        os.kill(pid, signal.SIGKILL)


def assert_nothing_left(instance: InstanceProcess) -> None:
    assert mentioning(instance.data_dir) == []
    assert is_free(instance.port)
    assert holder(instance.data_dir) is None
    for name in ("ready.json", "up.lock", "children.json", "prometheus_targets.json"):
        assert not (instance.data_dir / name).exists()


def command(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_ready_json_is_private_and_complete(running: InstanceProcess) -> None:
    assert (running.data_dir / "ready.json").stat().st_mode & 0o777 == 0o600
    assert running.data_dir.stat().st_mode & 0o777 == 0o700
    assert running.ready["base_url"] == f"http://127.0.0.1:{running.port}/v1"
    assert running.ready["flower_url"] is None
    assert running.ready["pid"] == running.process.pid


def test_it_answers_a_request_with_the_key_that_it_made(running: InstanceProcess) -> None:
    assert running.chat() == 200
    assert (running.get("/livez"), running.get("/readyz")) == (200, 200)


def test_no_secret_is_on_a_command_line_or_in_a_log(running: InstanceProcess) -> None:
    secrets = [path.read_text().strip() for path in (running.data_dir / "secrets").iterdir()]
    secrets.append((running.data_dir / "secret_key").read_text().strip())
    told = [Path(f"/proc/{record.pid}/cmdline").read_bytes() for record in read_records(running.data_dir)]
    told += [path.read_bytes() for path in (running.data_dir / "logs").iterdir()]
    assert len(secrets) == 4
    assert not any(secret.encode() in text for secret in secrets for text in told)


def test_a_second_start_says_so_and_does_nothing_else(running: InstanceProcess) -> None:
    before = {path.name for path in running.data_dir.iterdir()}
    second = command("up", "--engine", "simulator", "--data-dir", str(running.data_dir))
    assert second.returncode == 0
    assert f"already running on {running.data_dir} (pid {running.process.pid})" in second.stdout
    assert running.ready["base_url"] in second.stdout
    assert {path.name for path in running.data_dir.iterdir()} >= before - {"sluice.sqlite3-shm", "sluice.sqlite3-wal"}
    assert running.process.poll() is None


def test_every_process_serves_its_figures_where_the_targets_file_says(running: InstanceProcess) -> None:
    def targets() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((running.data_dir / "prometheus_targets.json").read_text())
        return found

    # The process for batches joins when all others are ready.
    wait_until(lambda: any(target["labels"]["instance"] == "bulk-1" for target in targets()), "batches are worked off")
    wait_until(lambda: "ready." in (running.data_dir / "logs" / "bulk-1.log").read_text(), "it listens")
    assert {target["labels"]["instance"] for target in targets()} == {"bulk-1", "gateway-1", "settlement", "worker-1"}
    for target in targets():
        host, port = target["targets"][0].split(":")
        with socket.create_connection((host, int(port)), 5) as connection:
            connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert b"200" in connection.recv(64)


@pytest.mark.chaos
@pytest.mark.parametrize("name", ["worker-1", "gateway-1", "settlement", "valkey"])
def test_a_child_that_was_killed_comes_back_and_the_instance_serves(running: InstanceProcess, name: str) -> None:
    killed = running.kill(name)
    wait_until(lambda: running.pid_of(name) not in (0, killed), f"{name} runs again")
    wait_until(lambda: running.get("/readyz") == 200 and running.chat() == 200, "it serves again", 60)


@pytest.mark.chaos
def test_after_its_supervisor_was_killed_nothing_runs_and_the_next_start_works(data_dir: Path) -> None:
    first = InstanceProcess(data_dir).wait_ready()
    key = first.ready["api_key"]
    children = [record.pid for record in read_records(data_dir)]
    first.process.kill()
    first.process.communicate()
    wait_until(lambda: not any(map(is_alive, children)), "all children are gone")
    second = InstanceProcess(data_dir, first.port)
    wait_until(lambda: holder(data_dir) == second.process.pid, "the second holds the directory")
    second.wait_ready()
    wait_until(lambda: second.ready["pid"] == second.process.pid, "the second is ready", 90)
    assert second.ready["api_key"] == key
    assert second.chat() == 200
    assert second.stop() == 0
    assert_nothing_left(second)


def test_a_first_key_that_was_revoked_does_not_stop_the_next_start(data_dir: Path) -> None:
    first = InstanceProcess(data_dir).wait_ready()
    old = first.ready["api_key"]
    assert first.stop() == 0
    with sqlite3.connect(data_dir / "sluice.sqlite3") as database:
        database.execute("UPDATE tenants_apikey SET revoked_at = '2020-01-01 00:00:00'")
    database.close()
    again = InstanceProcess(data_dir, first.port).wait_ready()
    assert again.ready["api_key"] != old
    assert again.chat() == 200
    assert again.stop() == 0


def test_two_instances_live_side_by_side_and_down_stops_one(running: InstanceProcess, data_dir: Path) -> None:
    other = InstanceProcess(data_dir, 0, "--gateways", "2").wait_ready()
    assert other.ready["api_key"] != running.ready["api_key"]
    assert (other.chat(), running.chat()) == (200, 200)
    stopped = command("down", "--data-dir", str(data_dir))
    assert stopped.returncode == 0
    assert f"Stopped (pid {other.process.pid})" in stopped.stdout
    assert other.wait_end() == 0
    assert_nothing_left(other)
    assert running.chat() == 200


def test_a_stop_during_the_start_leaves_nothing(data_dir: Path) -> None:
    instance = InstanceProcess(data_dir)
    wait_until(lambda: instance.pid_of("gateway-1"), "the gateway starts", 60)
    assert instance.stop() == 0
    assert_nothing_left(instance)


def test_a_taken_port_is_named_and_nothing_is_left(data_dir: Path) -> None:
    with listen("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        refused = command("up", "--engine", "simulator", "--port", str(port), "--data-dir", str(data_dir))
    assert refused.returncode == 1
    assert f"Port {port} on 127.0.0.1 is taken" in refused.stderr
    assert "--port" in refused.stderr
    assert not data_dir.exists()


def test_a_redis_that_does_not_answer_is_reported(data_dir: Path) -> None:
    port = str(free_port(random.Random()))
    where = ("--port", port, "--data-dir", str(data_dir))
    refused = command("up", "--engine", "simulator", "--redis-url", "redis://127.0.0.1:1", *where)
    assert refused.returncode == 1
    assert "does not answer" in refused.stderr
    assert holder(data_dir) is None


def test_a_wrong_option_stops_before_anything_is_made(data_dir: Path) -> None:
    refused = command("up", "--engine", "vlm", "--data-dir", str(data_dir))
    assert refused.returncode == 1
    assert "SLUICE_ENGINE must be one of vllm, padded, simulator" in refused.stderr
    assert not data_dir.exists()


def test_down_without_an_instance_says_so(data_dir: Path) -> None:
    idle = command("down", "--data-dir", str(data_dir))
    assert idle.returncode == 0
    assert "Nothing runs" in idle.stdout
