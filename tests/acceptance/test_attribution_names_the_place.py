"""Known delays at known places: the attribution tree names the place, and whose it is."""

import pytest

from bench.attribution import Scenario, run
from domain.trace.stages import Stage

pytestmark = pytest.mark.stack

SCENARIOS = (
    Scenario(Stage.TRANSIT, 300),
    Scenario(Stage.PREFILL, 300, "tenant"),
    Scenario(Stage.PREPARE, 300, "worker"),
    Scenario(Stage.RELAY, 300),
)

POINTS = 10.0
"""On a machine that runs other tests beside this one; alone it is under three (``bench/attribution.py``)."""


def test_what_was_slowed_down_is_named() -> None:
    verdicts = run(SCENARIOS, requests=24)
    assert [verdict for verdict in verdicts if not verdict.is_named] == []
    assert [verdict for verdict in verdicts if verdict.error > POINTS] == []
