"""vLLM's model runner is timed from outside, once vLLM has imported it; stand-ins take its place."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from workers.engines import below, vllm_hooks
from workers.engines.vllm_hooks import after_import, trace, wrap_runner


class Heard:
    """The sender's place."""

    def __init__(self) -> None:
        self.passes: list[tuple[int, int, int]] = []

    def model(self, started_us: int, duration_us: int, tokens: int) -> None:
        self.passes.append((started_us, duration_us, tokens))


def output_of(tokens: int) -> Any:
    return SimpleNamespace(total_num_scheduled_tokens=tokens)


class Runner:
    """A model runner's shape."""

    def __init__(self, answer: Any) -> None:
        self.answer, self.calls = answer, 0

    def execute_model(self, scheduler_output: Any, intermediate: Any = None) -> Any:
        self.calls += 1
        return self.answer

    def sample_tokens(self, grammar_output: Any) -> str:
        self.calls += 1
        return f"sampled {grammar_output}"


@pytest.fixture
def wrapped() -> tuple[type[Runner], Heard]:
    runner, heard = type("Wrapped", (Runner,), {}), Heard()
    wrap_runner(runner, heard)  # type: ignore[arg-type]
    return runner, heard


def test_a_pass_is_both_calls_and_its_answers_are_the_runners(wrapped: tuple[type[Runner], Heard]) -> None:
    runner, heard = wrapped[0](None), wrapped[1]
    assert runner.execute_model(output_of(5), intermediate=1) is None
    assert heard.passes == []
    assert runner.sample_tokens("g") == "sampled g"
    ((started_us, duration_us, tokens),) = heard.passes

    assert (runner.calls, tokens) == (2, 5)
    assert started_us > 0
    assert duration_us >= 0


def test_a_pass_that_answers_at_once_is_told_at_once_and_an_empty_one_never(
    wrapped: tuple[type[Runner], Heard],
) -> None:
    runner, heard = wrapped[0]("answer"), wrapped[1]
    assert [runner.execute_model(output_of(tokens)) for tokens in (3, 0)] == ["answer"] * 2
    runner.sample_tokens("g")

    assert [tokens for _, _, tokens in heard.passes] == [3]


def test_an_error_of_the_model_goes_its_way(wrapped: tuple[type[Runner], Heard]) -> None:
    runner = wrapped[0](None)
    with pytest.raises(AttributeError):
        runner.execute_model(None)


# --- modules that vLLM has not imported yet --------------------------------------------------------------------------


@pytest.fixture
def importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "imported_later.py").write_text("VALUE = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    finders = sys.meta_path[:]
    yield "imported_later"
    sys.meta_path[:] = finders
    sys.modules.pop("imported_later", None)


def test_a_module_is_seen_once_it_has_been_imported_and_not_before(importable: str) -> None:
    seen: list[Any] = []
    after_import({importable: lambda module: seen.append(module.VALUE)})
    assert seen == []
    module = importlib.import_module(importable)
    assert seen == [1]
    importlib.reload(module)
    assert seen == [1]


def test_a_module_that_has_been_imported_is_seen_at_once(importable: str) -> None:
    importlib.import_module(importable)
    seen: list[ModuleType] = []
    after_import({importable: seen.append, "there.is.none": seen.append})
    assert [module.__name__ for module in seen] == [importable]


def test_a_module_that_is_not_as_expected_is_imported_all_the_same(
    importable: str, caplog: pytest.LogCaptureFixture
) -> None:
    after_import({importable: lambda module: module.MISSING})
    assert importlib.import_module(importable).VALUE == 1
    assert "imported_later is not traced" in caplog.text


# --- what is asked for -----------------------------------------------------------------------------------------------


def test_nothing_is_touched_where_nothing_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(below.SOCKET, raising=False)
    finders = sys.meta_path[:]
    trace()
    assert sys.meta_path == finders


def test_a_worker_that_does_not_listen_is_told_of_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(below.SOCKET, str(tmp_path / "missing"))
    monkeypatch.setenv(below.LAYERS, "model")
    trace()
    assert len(caplog.records) == 1


def test_both_generations_of_runners_are_wrapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver = below.Receiver(tmp_path / "trace", ("model",))
    for name in vllm_hooks.RUNNERS:
        module = ModuleType(name)
        module.GPUModelRunner = type("GPUModelRunner", (Runner,), {})  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, module)
    finders = sys.meta_path[:]
    sender = trace()
    sys.meta_path[:] = finders
    for name in vllm_hooks.RUNNERS:
        runner = sys.modules[name].GPUModelRunner("answer")
        runner.execute_model(output_of(2))
    heard = [receiver._socket.recv(1000) for _ in vllm_hooks.RUNNERS]
    receiver.close()
    assert sender is not None
    sender.close()
    assert all(heard)


@pytest.mark.parametrize("reason", ["Triton is not installed", ""])
def test_triton_that_cannot_be_counted_is_told_of_in_one_line(
    reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vllm_hooks.triton_hook, "count_launches", lambda *_: reason)
    vllm_hooks.trace_triton(Heard())  # type: ignore[arg-type]
    assert [record.message for record in caplog.records] == (
        [f"launches of Triton kernels are not counted: {reason}"] if reason else []
    )


def test_launches_are_told_of_when_their_window_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Any] = []
    sent: list[list[tuple[str, int]]] = []
    clock = [0]
    monkeypatch.setattr(vllm_hooks, "now_us", lambda: clock[0])
    monkeypatch.setattr(vllm_hooks.triton_hook, "count_launches", lambda *arguments: given.extend(arguments))
    sender = SimpleNamespace(launches=lambda found: sent.append([(one.name, one.count) for one in found]))
    vllm_hooks.trace_triton(sender)  # type: ignore[arg-type]
    counter, clock_us, after = given
    for clock[0] in (10_000, 20_000, 110_000):
        counter.add(clock_us(), 1, "add")
        after(clock_us())

    assert sent == [[("add", 2), ("add", 1)]]
