"""How fast a batch is, and the words for why one waits."""

import pytest

from gateway.errors import TABLE
from gateway_admin.batches_rate import Rate, RateMemory, rate_of
from gateway_admin.batches_wording import WAITS, waits_for


@pytest.mark.parametrize(
    ("first", "now", "began", "rate"),
    [
        ((100, 0), (120, 50), 90, Rate(50 / 30, 30, is_recent=False)),
        ((100, 0), (110, 50), 95, None),  # a quarter of a minute says nothing
        ((100, 40), (200, 90), 0, Rate(0.5, 100, is_recent=True)),
        ((100, 90), (200, 90), 0, Rate(0, 100, is_recent=True)),
        ((100, 1), (200, 1), -20_000, Rate(1 / 20_200, 20_200, is_recent=False)),  # so slow that none is no sign
        ((100, 0), (130, 0), 0, None),
        ((100, 0), (161, 0), 0, Rate(0, 61, is_recent=True)),
    ],
)
def test_a_rate_is_told_where_it_is_known(
    first: tuple[float, int], now: tuple[float, int], began: float, rate: Rate | None
) -> None:
    assert rate_of(first, now, began) == rate


def test_the_memory_keeps_five_minutes_and_forgets_what_went_back() -> None:
    memory = RateMemory()
    for at_s in range(0, 1_000, 2):
        oldest = memory.note(1, at_s, at_s)
    assert oldest == (702, 702)
    assert memory.note(1, 1_000, 5) == (1_000, 5)
    for job in range(2, 1_500):
        memory.note(job, 1_000, 5)
    assert memory.note(1, 1_001, 9) == (1_001, 9)


def test_every_reason_for_which_requests_wait_has_words() -> None:
    never = {"files_not_allowed", "too_many_batches", "too_much_stored"}  # these refuse the batch, not a request
    again = {reason.value for reason, entry in TABLE.items() if entry.status in (429, 503)}

    assert again - never - set(WAITS) == set()
    assert waits_for("a_new_reason") == "a_new_reason"
