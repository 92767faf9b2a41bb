"""``manage.py verify`` from the outside: figures, verdict, exit status."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

SIMULATOR = {"engine": "simulator", "sim_profile": "zero", "prompts": 12, "max_tokens": 8}


def verify(**options: Any) -> tuple[int, str, str]:
    """Exit status, what was said, and the progress."""
    said, progress = StringIO(), StringIO()
    try:
        call_command("verify", stdout=said, stderr=progress, **options)
    except SystemExit as end:
        return int(end.code or 0), said.getvalue(), progress.getvalue()
    return 0, said.getvalue(), progress.getvalue()


def test_a_right_engine_is_equal(tmp_path: Path) -> None:
    status, said, progress = verify(**SIMULATOR, json=tmp_path / "found.json")
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))

    assert status == 0
    assert "12 of 12 answers, 96 of 96 tokens" in said
    assert said.rstrip().splitlines()[-1].startswith("Equal:")
    assert "alone: 12 of 12" in progress
    assert found["verdict"] == "equal"
    assert [answer["same_tokens"] for answer in found["answers"]] == [8] * 12


def test_an_engine_that_computes_garbage_in_the_batch_is_different(tmp_path: Path) -> None:
    status, said, _ = verify(**SIMULATOR, fault="garbage", json=tmp_path / "found.json")

    assert status == 1
    assert "0 of 12 answers" in said
    assert "real" in said
    assert said.rstrip().splitlines()[-1].startswith("Different:")
    assert json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["verdict"] == "different"


def test_more_at_once_than_the_engine_takes_is_no_difference() -> None:
    assert verify(**SIMULATOR, max_num_seqs="4", concurrency=12)[0] == 0


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"sim_profile": "unheard-of"}, "unknown simulator profile"),
        ({"fault": "error=503"}, "scripted error 503"),
        ({"fault": "explode"}, "unknown simulator fault"),
        ({"engine": "abacus"}, "must be one of"),
        ({"engine": "vllm", "fault": "garbage"}, "for the simulator alone"),
    ],
)
def test_what_cannot_run_ends_with_two(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(CommandError, match=reason) as error:
        verify(**{**SIMULATOR, **options})

    assert error.value.returncode == 2
