"""A client chooses its class by service_tier, and never one better than its plan."""

import pytest

from domain.qos import QosClass, choose_class


@pytest.mark.parametrize(
    ("tier", "best", "chosen"),
    [
        (None, QosClass.P0, QosClass.P1),
        ("auto", QosClass.P0, QosClass.P1),
        ("default", QosClass.P0, QosClass.P1),
        ("priority", QosClass.P0, QosClass.P0),
        ("priority", QosClass.P1, QosClass.P1),
        ("priority", QosClass.P2, QosClass.P2),
        ("flex", QosClass.P0, QosClass.P2),
    ],
)
def test_the_tier_chooses_within_the_plan(tier: str | None, best: QosClass, chosen: QosClass) -> None:
    assert choose_class(tier, best) is chosen


def test_an_unknown_tier_is_an_error() -> None:
    with pytest.raises(KeyError):
        choose_class("gold", QosClass.P0)
