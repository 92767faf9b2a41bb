"""An answer tells the tier that it was served at."""

import json

import pytest

from domain.qos import QosClass
from gateway.tier import tier_member, with_tier


@pytest.mark.parametrize(
    ("qos_class", "tier"), [(QosClass.P0, "priority"), (QosClass.P1, "default"), (QosClass.P2, "flex")]
)
def test_the_tier_is_told_and_nothing_else_changes(qos_class: QosClass, tier: str) -> None:
    answer = {"id": "1", "choices": [{"text": 'He wrote "service_tier":null and left.'}]}
    told = with_tier(json.dumps(answer, separators=(",", ":")).encode(), tier_member(qos_class))
    assert json.loads(told) == {**answer, "service_tier": tier}
