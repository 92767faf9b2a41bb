"""A directory of files."""

from pathlib import Path

import pytest

from tenants.files.disk import FileDisk


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    return FileDisk(tmp_path / "files")
