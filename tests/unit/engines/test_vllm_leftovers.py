import os
import tempfile
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path

import pytest

from workers.engines import vllm_leftovers


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_own_directory_stays_while_its_process_lives(temporary: Path) -> None:
    own = vllm_leftovers.own_directory()
    vllm_leftovers.remove_leftovers()

    assert own.is_dir()
    assert own == vllm_leftovers.own_directory()
    assert own.stat().st_mode & 0o777 == 0o700


def test_a_dead_process_leaves_nothing(temporary: Path) -> None:
    memory = SharedMemory(create=True, size=16)
    orphan = temporary / f"sluice-engine-{os.getpid()}-1"  # this id, but another start
    try:
        own = vllm_leftovers.own_directory()
        vllm_leftovers.note_shared_memory(own)
        own.rename(orphan)
        vllm_leftovers.remove_leftovers()

        assert not orphan.exists()
        assert not Path("/dev/shm", memory.name.lstrip("/")).exists()
    finally:
        memory.close()
        # It is gone already: the name must not be unlinked again at exit.
        from multiprocessing import resource_tracker

        resource_tracker.unregister(memory._name, "shared_memory")


def test_a_note_cannot_name_files_elsewhere(temporary: Path) -> None:
    precious = temporary / "precious"
    precious.touch()
    orphan = temporary / "sluice-engine-1-1"
    orphan.mkdir()
    (orphan / "shared-memory").write_text(f"../..{precious}\n", encoding="utf-8")
    vllm_leftovers.remove_leftovers()

    assert precious.exists()
    assert not orphan.exists()
