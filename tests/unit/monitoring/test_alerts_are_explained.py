"""An alert says what is wrong and where to read what to do."""

import re
from typing import Any

import pytest
from shipped import ROOT, rules

PAGE = "docs/how-to/answer-alerts.md"
ALERTS = rules("alert")
HEADINGS = re.findall(r"^### (\w+)$", (ROOT / PAGE).read_text(), re.MULTILINE)


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_explains_itself(alert: dict[str, Any]) -> None:
    notes = alert["annotations"]
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert 15 < len(notes["summary"]) < 130
    assert len(notes["description"]) > 50
    assert notes["runbook_url"] == f"{PAGE}#{alert['alert'].lower()}"
    assert alert["alert"] in HEADINGS


def test_the_page_explains_no_alert_that_there_is_not() -> None:
    assert sorted(HEADINGS) == sorted(alert["alert"] for alert in ALERTS)
