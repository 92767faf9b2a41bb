"""Prometheus's own tool reads the shipped configuration and rules, and makes the alerts fire."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gateway_admin.supervisor.targets import targets_path, write_targets
from tools import prometheus

SHIPPED = Path(__file__).resolve().parents[3] / "deploy" / "prometheus"
pytestmark = pytest.mark.skipif(
    prometheus.program() is None and not prometheus.is_required(), reason=prometheus.MISSING
)


def promtool(*arguments: str, folder: Path = SHIPPED) -> str:
    """What it says; it must not complain."""
    found = prometheus.program()
    assert found, prometheus.MISSING
    command = [str(found.with_name("promtool")), *arguments]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def test_the_configuration_is_right_with_an_instance_to_watch(tmp_path: Path) -> None:
    copy = tmp_path / "prometheus"
    shutil.copytree(SHIPPED, copy, ignore=shutil.ignore_patterns("*.json"))
    write_targets(tmp_path, {"gateway-1": 9_001, "worker-1": 9_002, "settlement": 9_003})
    (copy / "targets" / "mine.json").symlink_to(targets_path(tmp_path))
    shutil.copy(SHIPPED / "compose_targets.json", copy / "targets")

    said = promtool("check", "config", "prometheus.yml", folder=copy)
    assert "FAILED" not in said
    assert "targets" not in said  # it warns of files that it cannot find


def test_the_rules_are_right() -> None:
    assert "SUCCESS" in promtool(
        "check", "rules", "--lint=all", "--lint-fatal", "recording_rules.yml", "alert_rules.yml"
    )


def test_alerts_fire_and_stay_quiet_as_they_should() -> None:
    assert "SUCCESS" in promtool("test", "rules", "rules_test.yml")


def test_each_alert_is_made_to_fire() -> None:
    groups = yaml.safe_load((SHIPPED / "alert_rules.yml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}

    fired = re.findall(r"labels: 'ALERTS\{alertname=\"(\w+)\"", (SHIPPED / "rules_test.yml").read_text())
    assert set(fired) == alerts
