"""A short soak: a process of each kind killed hard under mixed load, and afterwards all books agree."""

from collections import Counter
from pathlib import Path

import pytest

from bench.soak import PARTS, environ_for, outcome_of, soak
from tests import stack
from tests.acceptance.conftest import JOURNAL

pytestmark = [pytest.mark.stack, pytest.mark.chaos]

SIZES = ("--engine", "simulator", "--sim-profile", "zero", "--no-flower")
PROCESSES = ("--gateways", "2", "--workers", "2", "--bulk", "2")


def test_all_books_agree_after_a_process_of_every_kind_was_killed(tmp_path: Path) -> None:
    journal = tmp_path / JOURNAL
    with stack.start(tmp_path / "data", *SIZES, *PROCESSES, environ=environ_for(journal)) as running:
        found = soak(running, journal, seconds=20, rate=12, kill_every_s=3.5)

    assert found.differences == []
    assert found.kills.keys() == PARTS.keys()
    assert all(check.looked_at for check in found.checks), "something was held against nothing"
    outcomes = Counter(outcome_of(attempt) for attempt in found.attempts)
    assert outcomes["answered"] > 100
    assert outcomes["answer given again"] > 0
    assert outcomes["left by the client"] > 0
