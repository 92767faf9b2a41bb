"""What all tests share."""

import re
from functools import cache
from pathlib import Path

import hypothesis
import pytest
from django.conf import settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

ROOT = Path(__file__).resolve().parent.parent

SHARED_INSTANCES = ("pair", "keeping", "trio", "bulk", "sim")

# How long an example takes says more about what else the machine does than about the code.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Put the test database into a file: SQLite in memory locks differently from what the product uses."""
    database = settings.DATABASES["default"]
    if "sqlite" in database["ENGINE"]:
        name: Path = tmp_path_factory.mktemp("database") / "test.sqlite3"
        database.setdefault("TEST", {})["NAME"] = str(name)


class ByInstance(LoadScopeScheduling):
    """Lets one process run all files that use the same shared instance, so that it is started once; others by file."""

    def _split_scope(self, nodeid: str) -> str:
        return _instance_of(nodeid.partition("::")[0])


@cache
def _instance_of(file: str) -> str:
    text = (ROOT / file).read_text()
    if "def product(" not in text:
        text = text.replace("product: Stack", "sim: Stack")
    uses = {name: len(re.findall(rf"\b{name}: (?:stack\.)?Stack\b", text)) for name in SHARED_INSTANCES}
    most = max(uses, key=lambda name: uses[name])
    return most if uses[most] else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByInstance:
    """Say which tests go together."""
    return ByInstance(config, log)
