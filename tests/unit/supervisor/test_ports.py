import random
import socket
from pathlib import Path

import pytest

from gateway_admin.supervisor.ports import CannotListen, StablePorts, free_port, is_free, listen


@pytest.fixture
def choose() -> random.Random:
    return random.Random()


def test_a_taken_port_is_named_with_the_option_that_helps(choose: random.Random) -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(CannotListen, match=f"Port {port} on 127.0.0.1 is taken.*--port"):
            listen("127.0.0.1", port)


def test_a_host_of_another_machine_is_refused() -> None:
    with pytest.raises(CannotListen, match="--host"):
        listen("192.0.2.1", 0)


def test_a_name_that_does_not_resolve_is_refused() -> None:
    with pytest.raises(CannotListen, match="--host"):
        listen("no-such-host.invalid", 0)


def test_connections_wait_before_anybody_accepts() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname(), 1) as client:
        client.sendall(b"hello")
        listener.setblocking(True)
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.recv(16) == b"hello"


def test_a_private_port_stays_the_same(tmp_path: Path, choose: random.Random) -> None:
    port = StablePorts(tmp_path, choose).port("valkey")
    assert StablePorts(tmp_path, choose).port("valkey") == port
    assert StablePorts(tmp_path, choose).port("flower") != 0


def test_a_private_port_that_was_lost_is_replaced(tmp_path: Path, choose: random.Random) -> None:
    port = StablePorts(tmp_path, choose).port("valkey")
    with listen("127.0.0.1", port):
        other = StablePorts(tmp_path, choose).port("valkey")
    assert other != port
    assert StablePorts(tmp_path, choose).port("valkey") == other


@pytest.mark.parametrize("content", ["", "[]", "nonsense", '{"valkey": "x"}'])
def test_a_damaged_list_of_ports_is_made_anew(tmp_path: Path, choose: random.Random, content: str) -> None:
    (tmp_path / "ports.json").write_text(content)
    assert is_free(StablePorts(tmp_path, choose).port("valkey"))


def test_free_ports_lie_below_those_of_outgoing_connections(choose: random.Random) -> None:
    assert 20_000 <= free_port(choose) < 32_000
