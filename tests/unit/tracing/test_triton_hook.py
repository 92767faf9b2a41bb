"""Launches of Triton kernels are counted by name; a stand-in of Triton's shape takes its place."""

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from domain.trace.launches import OTHERS, TRITON, LaunchCounter, Launches
from tracing.kernel import triton_hook
from tracing.kernel.triton_hook import NO_HOOK, NO_TRITON, count_launches, why_off


class Chain:
    """Triton's chain of hooks."""

    def __init__(self) -> None:
        self.calls: list[Callable[[Any], None]] = []

    def add(self, hook: Callable[[Any], None]) -> None:
        self.calls.append(hook)

    def __call__(self, metadata: Any) -> None:
        for call in self.calls:
            call(metadata)


class Metadata:
    """Triton's lazy dictionary of a launch."""

    def __init__(self, **data: Any) -> None:
        self.data = data

    def get(self) -> dict[str, Any]:
        raise AssertionError("what a kernel's author adds was run")


@pytest.fixture
def chain(monkeypatch: pytest.MonkeyPatch) -> Chain:
    made, knobs = Chain(), ModuleType("triton.knobs")
    knobs.runtime = SimpleNamespace(launch_enter_hook=made)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "triton", ModuleType("triton"))
    monkeypatch.setitem(sys.modules, "triton.knobs", knobs)
    monkeypatch.setattr(triton_hook, "find_spec", lambda name: name)
    return made


def test_launches_are_counted_by_name(chain: Chain) -> None:
    counter, after = LaunchCounter(TRITON), list[int]()
    assert count_launches(counter, lambda: 1_250_000, after.append) == ""
    for name in ("add", "mul", "add"):
        chain(Metadata(name=name, stream=7))
    chain(None)

    names = {"add": 2, "mul": 1, OTHERS: 1}
    assert counter.take() == [Launches(1_200_000, os.getpid(), TRITON, name, count) for name, count in names.items()]
    assert after == [1_250_000] * 4


def test_a_triton_without_the_hook_is_named(chain: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["triton.knobs"], "runtime", SimpleNamespace(launch_enter_hook=None))
    assert count_launches(LaunchCounter(TRITON), int, print) == NO_HOOK
    monkeypatch.setitem(sys.modules, "triton.knobs", None)
    assert count_launches(LaunchCounter(TRITON), int, print) == NO_HOOK


@pytest.mark.skipif(find_spec("triton") is not None, reason="Triton is installed")
def test_where_triton_is_absent_that_is_told() -> None:
    assert why_off() == NO_TRITON
    assert count_launches(LaunchCounter(TRITON), int, print) == NO_TRITON
