"""Instances that acceptance tests share."""

from collections.abc import Iterator

import pytest

from tests import stack


@pytest.fixture(scope="session")
def sim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """The product on the simulator at no cost of time, one gateway, one worker."""
    data_dir = tmp_path_factory.mktemp("sim") / "data"
    with stack.start(data_dir, "--engine", "simulator", "--sim-profile", "zero", "--no-flower") as running:
        yield running


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[stack.Stack]:
    """The product on the real engine with the small real model."""
    data_dir = tmp_path_factory.mktemp("real") / "data"
    with stack.start(data_dir, "--engine", "vllm", "--no-flower") as running:
        yield running
