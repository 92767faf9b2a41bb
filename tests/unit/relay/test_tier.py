"""An answer tells the tier that it was served at."""

import json

import pytest

from domain.qos import QosClass
from gateway.tier import tier_member, with_tier

TRICKY = 'He wrote "service_tier":null and left.'


@pytest.mark.parametrize("left_open", [{}, {"service_tier": None}], ids=["absent", "null"])
@pytest.mark.parametrize(
    ("qos_class", "tier"), [(QosClass.P0, "priority"), (QosClass.P1, "default"), (QosClass.P2, "flex")]
)
def test_the_tier_is_told_once_and_nothing_else_changes(
    left_open: dict[str, None], qos_class: QosClass, tier: str
) -> None:
    answer = {"id": "1", "choices": [{"text": TRICKY}], **left_open}
    told = with_tier(json.dumps(answer, separators=(",", ":")).encode(), tier_member(qos_class))
    pairs = json.loads(told, object_pairs_hook=list)
    assert sorted(name for name, _ in pairs) == ["choices", "id", "service_tier"]
    assert json.loads(told) == {**answer, "service_tier": tier}
