from argparse import Namespace
from pathlib import Path

import pytest

from tools import install


def choose(for_up: str = "", engine: str = "auto") -> str:
    return install._engine(Namespace(engine=engine, for_up=for_up))


@pytest.fixture
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLUICE_ENGINE", raising=False)
    monkeypatch.setenv("PATH", "")


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("arguments", ["--engine simulator", "--port 1 --engine=simulator --no-flower"])
def test_the_simulator_needs_no_engine_packages(arguments: str) -> None:
    assert choose(arguments) == "none"


@pytest.mark.usefixtures("without_gpu")
@pytest.mark.parametrize("arguments", ["", "--port 8001", "--engine vllm", "--model 'a b'"])
def test_a_machine_without_a_gpu_gets_the_engine_for_cpus(arguments: str) -> None:
    assert choose(arguments) == "cpu"


@pytest.mark.usefixtures("without_gpu")
def test_the_environment_chooses_where_no_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_ENGINE", "simulator")
    assert choose() == "none"
    assert choose("--engine vllm") == "cpu"


def test_a_named_engine_wins() -> None:
    assert choose("--engine simulator", engine="gpu") == "gpu"


def test_a_changed_list_is_installed_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(install, "STAMPS", tmp_path / "stamps")
    assert not install._is_stamped("gateway", "a==1")
    install._stamp("gateway", "a==1")
    assert install._is_stamped("gateway", "a==1")
    assert not install._is_stamped("gateway", "a==2")
