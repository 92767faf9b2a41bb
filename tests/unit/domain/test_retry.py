"""Retries keep to what each class was promised: how many, and how far apart."""

import pytest

from domain.qos import POLICIES, QosClass
from domain.retry import delay_ms


@pytest.mark.parametrize(("qos_class", "retries"), [(QosClass.P0, 1), (QosClass.P1, 3), (QosClass.P2, 5)])
def test_a_class_is_retried_as_often_as_promised_and_no_more(qos_class: QosClass, retries: int) -> None:
    assert POLICIES[qos_class].max_retries == retries


@pytest.mark.parametrize(
    ("qos_class", "delays"),
    [(QosClass.P0, [50, 100, 200, 400]), (QosClass.P1, [200] * 4), (QosClass.P2, [0] * 4)],
)
def test_real_time_backs_off_exponentially_core_business_at_fixed_intervals_background_not_at_all(
    qos_class: QosClass, delays: list[int]
) -> None:
    assert [delay_ms(qos_class, attempt) for attempt in range(1, 5)] == delays


def test_the_first_run_is_no_retry() -> None:
    with pytest.raises(ValueError, match="counted from 1"):
        delay_ms(QosClass.P0, 0)
