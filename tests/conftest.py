"""What all tests share."""

from pathlib import Path

import hypothesis
import pytest
from django.conf import settings

SHARED_INSTANCES = ("pair", "keeping", "trio", "sim")

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process run all tests of a shared instance, so that it is started once; and all others file by file."""
    for item in items:
        used = [name for name in SHARED_INSTANCES if name in _fixtures(item)]
        item.add_marker(pytest.mark.xdist_group(used[0] if used else item.path.name))


def _fixtures(item: pytest.Item) -> set[str]:
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return {*getattr(item, "fixturenames", ()), *(one for one in parameters if isinstance(one, str))}
