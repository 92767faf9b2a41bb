"""A short soak: a process of each kind killed hard under mixed load, and afterwards all books agree."""

from collections import Counter

import pytest

from bench.soak import MODEL, PARTS, outcome_of, soak
from tests.acceptance.conftest import JOURNAL
from tests.stack import Stack, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.chaos]


def test_all_books_agree_after_a_process_of_every_kind_was_killed(pair: Stack) -> None:
    found = soak(pair, pair.data_dir.parent / JOURNAL, seconds=16, rate=12, kill_every_s=3.5)
    # Whoever comes next finds both workers in service again.
    wait_until(lambda: len(pair.store().hgetall(f"sl:room:{MODEL}:p0")) == 2, 60, "a worker did not come back")

    assert found.differences == []
    assert found.kills.keys() == PARTS.keys()
    assert all(check.looked_at for check in found.checks), "something was held against nothing"
    outcomes = Counter(outcome_of(attempt) for attempt in found.attempts)
    assert outcomes["answered"] > 100
    assert outcomes["answer given again"] > 0
    assert outcomes["left by the client"] > 0
