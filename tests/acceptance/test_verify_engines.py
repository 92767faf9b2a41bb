"""``manage.py verify`` on the real engines, as an operator runs it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def verify(tmp_path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit status, and what was found."""
    found = tmp_path / "found.json"
    command = [sys.executable, str(ROOT / "manage.py"), "verify", "--json", str(found), *options]
    environ = {**os.environ, "SLUICE_DATA_DIR": str(tmp_path)}
    done = subprocess.run(command, env=environ, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.exists(), done.stderr
    return done.returncode, json.loads(found.read_text(encoding="utf-8"))


@pytest.mark.vllm
@pytest.mark.timeout(600)
def test_vllm_says_in_a_batch_what_it_says_alone(tmp_path: Path) -> None:
    status, found = verify(tmp_path, "--engine", "vllm", "--prompts", "16", "--max-tokens", "12")

    assert (status, found["verdict"]) == (0, "equal")
    assert found["engine"]["dtype"] == "float32"
    assert sum(answer["same_tokens"] for answer in found["answers"]) == 16 * 12
    # 0 where the CPU's kernels compute a row of a batch as they compute it alone.
    assert 0 <= found["logprob_gap_nats"] < found["tolerance_nats"]


@pytest.mark.timeout(300)
def test_padded_embeddings_are_those_of_each_text_alone(tmp_path: Path) -> None:
    options = ("--engine", "padded", "--model", "all-minilm-l6-v2", "--prompts", "24")
    status, found = verify(tmp_path, *options)

    assert (status, found["verdict"]) == (0, "equal")
    assert len(found["cosines"]) == 24
