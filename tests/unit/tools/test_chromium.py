"""Whether there is a Chromium, and what becomes of its absence."""

from pathlib import Path

import pytest

from tools import chromium


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """All that is on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_where_none_can_be_had_only_ci_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, status: int
) -> None:
    monkeypatch.setenv("CI", ci)

    assert chromium.main() == status
    assert chromium.MISSING in capsys.readouterr().err


def test_the_one_that_is_there_is_taken(folder: Path) -> None:
    there = put(folder / "chromium", "exit 1")

    assert chromium.install() == there
    assert chromium.main() == 0


def test_the_browser_alone_is_installed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    asked = folder / "asked"
    put(folder / "apt-get", f'echo "$*" >> {asked}\necho > {folder}/chromium\n/bin/chmod +x {folder}/chromium')

    assert chromium.install() == str(folder / "chromium")
    assert asked.read_text().splitlines()[-1].split()[-2:] == ["--no-install-recommends", "chromium"]


def test_an_installation_that_fails_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    put(folder / "apt-get", "exit 100")

    chromium.main()

    assert "this failed: apt-get update" in capsys.readouterr().err
