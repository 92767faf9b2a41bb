"""What is traced in an engine's processes reaches the worker, and never holds them up."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain.config import Config
from domain.trace.launches import TRITON, Launches
from workers.engines.below import LAYERS, SOCKET, Receiver, Sender, layers_of


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path / "trace", ("model", "triton"))
    yield made
    made.close()


@pytest.fixture
def sender(receiver: Receiver) -> Iterator[Sender]:
    made = Sender(os.environ[SOCKET])
    yield made
    made.close()


def test_processes_that_are_started_know_where_to_send_what(receiver: Receiver) -> None:
    assert os.environ[LAYERS] == "model,triton"
    receiver.close()
    assert SOCKET not in os.environ


def test_passes_are_added_up_by_when_they_ended(receiver: Receiver, sender: Sender) -> None:
    for started_us in (100, 200, 300):
        sender.model(started_us, 50, 7)

    assert receiver.model_us(0, 250) == 100  # those that ended at 150 and 250
    assert receiver.model_us(250, 340) == 0
    assert receiver.model_us(340, 400) == 50
    assert receiver.model_us(0, 400) == 0


def test_a_pass_that_ended_before_counts_for_nobody(receiver: Receiver, sender: Sender) -> None:
    sender.model(100, 50, 7)
    assert receiver.model_us(150, 300) == 0
    assert receiver.model_us(0, 300) == 0


def test_launches_come_as_they_were_counted(receiver: Receiver, sender: Sender) -> None:
    many = [Launches(number, 1, TRITON, "add", 2) for number in range(700)]
    sender.launches(many)

    assert receiver.take_launches() == many
    assert receiver.take_launches() == []


def test_a_worker_that_does_not_listen_holds_nobody_up(receiver: Receiver, sender: Sender) -> None:
    for _ in range(5_000):
        sender.model(100, 1, 1)

    assert 0 < receiver.model_us(0, 1_000) < 5_000


def test_a_worker_that_is_gone_holds_nobody_up(receiver: Receiver, sender: Sender) -> None:
    receiver.close()
    sender.model(100, 50, 7)
    assert receiver.model_us(0, 1_000) == 0


def test_what_cannot_be_read_is_passed_over(receiver: Receiver, sender: Sender) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
        for message in (b"", b"\xc1", b"\x90", b"\x92\xa1m\x01", b"\x92\xa1l\x91\x90"):
            stranger.sendto(message, os.environ[SOCKET])
    sender.model(100, 50, 7)

    assert receiver.model_us(0, 1_000) == 50
    assert receiver.take_launches() == []


def test_what_is_wanted_follows_the_settings() -> None:
    assert layers_of(Config()) == ()
    assert layers_of(Config(trace_model=True, trace_triton=True)) == ("model", "triton")
