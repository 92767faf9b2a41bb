from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.core.management.base import CommandParser

from gateway_admin.management.commands.up import Command, _read_options
from gateway_admin.supervisor.options import Options


def options(tmp_path: Path, *arguments: str) -> Options:
    """What ``manage.py up`` makes of its command line."""
    parser: CommandParser = Command().create_parser("manage.py", "up")
    return _read_options(vars(parser.parse_args([*arguments, "--data-dir", str(tmp_path / "data")])))


@pytest.mark.parametrize(
    ("arguments", "embeds"),
    [
        (["--engine", "vllm"], True),
        (["--engine", "vllm", "--no-embeddings"], False),
        (["--engine", "simulator"], False),
        (["--engine", "simulator", "--embeddings"], True),
        (["--engine", "padded"], False),
    ],
)
def test_embeddings_join_the_real_engine_unless_told_otherwise(
    tmp_path: Path, arguments: list[str], embeds: bool
) -> None:
    assert options(tmp_path, *arguments).has_embeddings is embeds


def test_one_process_works_off_batches_unless_told_otherwise(tmp_path: Path) -> None:
    assert [options(tmp_path, *asked).bulk for asked in ((), ("--bulk", "0"), ("--bulk", "3"))] == [1, 0, 3]


def test_there_are_no_workers_for_p0_and_no_cores_unless_asked_for(tmp_path: Path) -> None:
    plain = options(tmp_path)
    assert (plain.worker_cores, plain.p0_workers, plain.p0_cores) == ("", 0, "")
    asked = options(tmp_path, "--worker-cores", "1, 2", "--p0-workers", "2", "--p0-cores", "0")
    assert (asked.worker_cores, asked.p0_workers, asked.p0_cores) == ("1,2", 2, "0")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--worker-cores", "0-3"], "comma separated"),
        (["--worker-cores", ""], "comma separated"),
        (["--p0-workers", "-1"], "at least 1"),
        (["--p0-cores", "1"], "--p0-workers"),
    ],
)
def test_a_wrong_option_is_named_before_anything_starts(tmp_path: Path, arguments: list[str], said: str) -> None:
    with pytest.raises(CommandError, match=said):
        call_command("up", "--data-dir", str(tmp_path / "data"), *arguments)
    assert not (tmp_path / "data").exists()
