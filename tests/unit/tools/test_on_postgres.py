"""A command with a Postgres of its own."""

import sys
from pathlib import Path

import psycopg
import pytest

from tools import on_postgres, postgres
from tools.postgres import MISSING, PostgresMissing, cluster, is_required, programs

NEEDS_POSTGRES = pytest.mark.skipif(programs() is None and not is_required(), reason=MISSING)


@pytest.fixture
def _no_postgres(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres, "_PACKAGES", tmp_path)


@NEEDS_POSTGRES
def test_the_command_finds_an_empty_database_which_is_gone_afterwards(tmp_path: Path) -> None:
    told = tmp_path / "told"
    code = (
        "import os, pathlib, psycopg, sys\n"
        "url = os.environ['SLUICE_DATABASE_URL']\n"
        "tables = psycopg.connect(url).execute(\"SELECT count(*) FROM pg_tables WHERE schemaname = 'public'\")\n"
        f"pathlib.Path({str(told)!r}).write_text(f'{{url}} {{tables.fetchone()[0]}}')\n"
        "sys.exit(7)\n"
    )

    assert on_postgres.main([sys.executable, "-c", code]) == 7

    url, tables = told.read_text().split()
    assert tables == "0"
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)


@pytest.mark.usefixtures("_no_postgres")
@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_where_none_can_be_had_only_ci_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ci: str, status: int
) -> None:
    monkeypatch.setenv("CI", ci)

    assert on_postgres.main(["true"]) == status
    assert postgres.main() == status
    assert MISSING in capsys.readouterr().err


@pytest.mark.usefixtures("_no_postgres")
def test_a_cluster_without_programs_says_what_is_missing() -> None:
    with pytest.raises(PostgresMissing, match="initdb"), cluster():
        pass


@NEEDS_POSTGRES
def test_a_setting_that_postgres_refuses_is_told_with_its_log() -> None:
    with pytest.raises(RuntimeError, match="no_such_setting"), cluster("no_such_setting=1"):
        pass
