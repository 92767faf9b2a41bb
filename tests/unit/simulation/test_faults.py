"""Fault scripts are read strictly."""

import pytest

from domain.simulation.faults import KNOWN_FAULTS, Faults, UnknownFault, parse_faults


def test_a_script_may_ask_for_several_faults() -> None:
    assert parse_faults(" delay=2.5, tokens=100 ,utf8") == Faults(delay=2.5, tokens=100, utf8=True)


def test_killing_the_engine_takes_a_count_or_none() -> None:
    assert parse_faults("kill_engine").kill_engine == 0
    assert parse_faults("kill_engine=4").kill_engine == 4


def test_an_unknown_fault_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UnknownFault) as refusal:
        parse_faults("explode")

    assert all(name in str(refusal.value) for name in KNOWN_FAULTS)


@pytest.mark.parametrize("script", ["tokens", "tokens=x", "tokens=0", "delay=-1", "delay=nan", "error=200", "utf8=1"])
def test_a_wrong_value_is_refused(script: str) -> None:
    with pytest.raises(UnknownFault):
        parse_faults(script)
