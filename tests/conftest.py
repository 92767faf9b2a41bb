"""What all tests share."""

from pathlib import Path

import hypothesis
import pytest
from django.conf import settings

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
