"""Quantiles by nearest rank."""

import math

import pytest

from bench.quantile import quantile


@pytest.mark.parametrize(("share", "expected"), [(0, 1), (0.01, 1), (0.5, 50), (0.99, 99), (1, 100)])
def test_a_quantile_is_the_smallest_value_that_the_share_does_not_pass(share: float, expected: int) -> None:
    assert quantile(range(100, 0, -1), share) == expected


def test_a_quantile_of_nothing_is_not_a_number() -> None:
    assert math.isnan(quantile([], 0.5))
