"""What a wrong setting does to the start, and what the checks say."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from domain.config import Config
from gateway_admin.checks import judge
from gateway_admin.database import database_settings
from gateway_admin.secret import DEVELOPMENT_KEY

GOOD_KEY = "Ab3_".join("0123456789abcdefghijk")
PRODUCTION = Config(
    production=True, https=True, allowed_hosts=("gateway.example",), secret_key=GOOD_KEY, data_dir=Path("/tmp")
)


def django_check(settings: Mapping[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return subprocess.run(
        [sys.executable, "-m", "django", "check", "--settings=gateway_admin.settings", *options],
        env={"SLUICE_DATA_DIR": "/nonexistent"} | clean | settings,  # what a running instance keeps is none of ours
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"SLUICE_PRODUCTION": "true"}, "SLUICE_SECRET_KEY"),
        ({"SLUICE_ENGINE": "magic"}, "SLUICE_ENGINE"),
        ({"SLUICE_DATABASE_URL": "mysql://a/b"}, "SLUICE_DATABASE_URL"),
        ({"SLUICE_SECRET_KEY_FILE": "/nonexistent/key"}, "SLUICE_SECRET_KEY_FILE"),
    ],
)
def test_a_wrong_setting_stops_the_start_with_one_line(environment: dict[str, str], named: str) -> None:
    done = django_check(environment)

    assert done.returncode == 1
    assert done.stderr.startswith(f"sluice: {named}")
    assert done.stderr.count("\n") == 1


def test_the_production_profile_passes_the_deployment_checks() -> None:
    done = django_check(
        {
            "SLUICE_PRODUCTION": "true",
            "SLUICE_HTTPS": "true",
            "SLUICE_ALLOWED_HOSTS": "gateway.example",
            "SLUICE_SECRET_KEY": GOOD_KEY,
            "SLUICE_DATA_DIR": "/tmp",
        },
        "--deploy",
        "--fail-level=WARNING",
    )

    assert done.returncode == 0, done.stderr
    assert "no issues" in done.stdout


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (PRODUCTION, []),
        (replace(PRODUCTION, secret_key="short"), ["sluice.E001"]),
        (replace(PRODUCTION, allowed_hosts=()), ["sluice.E002"]),
        (replace(PRODUCTION, allowed_hosts=("*",)), ["sluice.E003"]),
        (replace(PRODUCTION, https=False), ["sluice.E004"]),
        (replace(PRODUCTION, data_dir=Path("/etc/hostname")), ["sluice.E005"]),
        (replace(PRODUCTION, redis_url="127.0.0.1:6379"), ["sluice.E006"]),
        (replace(PRODUCTION, redis_url="redis://127.0.0.1:6379/0"), ["sluice.E006"]),
        (replace(PRODUCTION, redis_url="redis://valkey.example:6379"), ["sluice.W002"]),
        (replace(PRODUCTION, redis_url="redis://valkey.example:6379", database_url="postgres://db/s"), []),
        (Config(secret_key=DEVELOPMENT_KEY, data_dir=Path("/tmp")), ["sluice.W001"]),
    ],
)
def test_checks_find(config: Config, found: list[str]) -> None:
    messages = list(judge(config, config.secret_key))

    assert [message.id for message in messages] == found
    assert all(message.hint for message in messages)


def test_a_data_directory_that_is_yet_to_be_made_is_fine(tmp_path: Path) -> None:
    config = replace(PRODUCTION, data_dir=tmp_path / "deep" / "down")

    assert list(judge(config, GOOD_KEY)) == []


def test_postgres_is_read_from_its_url() -> None:
    settings = database_settings(Config(database_url="postgres://me:secret@db.example:5433/sluice"))

    assert settings["ENGINE"] == "django.db.backends.postgresql"
    assert (settings["HOST"], settings["PORT"], settings["NAME"]) == ("db.example", 5433, "sluice")
