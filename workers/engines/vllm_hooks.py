"""What is put around vLLM's own functions in the processes that it starts; nothing of its code is changed.

vLLM's modules are wrapped once they have been imported by vLLM itself, so that nothing is loaded in another order.
"""

import functools
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from domain.trace.launches import TRITON, WINDOW_US, LaunchCounter
from tracing.clock import now_us
from tracing.kernel import triton_hook
from workers.engines import below

logger = logging.getLogger(__name__)

RUNNERS = ("vllm.v1.worker.gpu_model_runner", "vllm.v1.worker.gpu.model_runner")
"""Where vLLM's two generations of model runners are; those for CPUs extend them."""

RUNNER_CLASS = "GPUModelRunner"

Action = Callable[[ModuleType], None]


def trace() -> below.Sender | None:
    """Trace in this process what the worker that started it wants to know; returns what tells it, if it wants any."""
    path, layers = os.environ.get(below.SOCKET), os.environ.get(below.LAYERS, "").split(",")
    if not path:
        return None
    try:
        sender = below.Sender(path)
    except OSError as error:
        logger.warning("nothing is traced in the engine's process %s: %s", os.getpid(), error)
        return None
    if below.MODEL in layers:
        after_import(dict.fromkeys(RUNNERS, lambda module: wrap_runner(getattr(module, RUNNER_CLASS), sender)))
    if below.TRITON in layers:
        trace_triton(sender)
    return sender


def trace_triton(sender: below.Sender) -> None:
    """Tell of launches of Triton kernels, a window after each other."""
    counter, window = LaunchCounter(TRITON), now_us() // WINDOW_US

    def after(at_us: int) -> None:
        nonlocal window
        if at_us // WINDOW_US != window:
            window = at_us // WINDOW_US
            sender.launches(counter.take())

    if reason := triton_hook.count_launches(counter, now_us, after):
        logger.warning("launches of Triton kernels are not counted: %s", reason)


def wrap_runner(runner: Any, sender: below.Sender) -> None:
    """Tell of every pass of a class of model runners: when it began, how long it took, how many tokens it computed.

    A pass is ``execute_model`` and, where that gives None, the ``sample_tokens`` that follows it.
    """
    execute, sample = runner.execute_model, runner.sample_tokens
    begun: list[tuple[int, int, int]] = []

    @functools.wraps(execute)
    def execute_model(self: Any, scheduler_output: Any, *args: Any, **options: Any) -> Any:
        started_us, start_ns = now_us(), time.perf_counter_ns()
        output = execute(self, scheduler_output, *args, **options)
        spent_ns, tokens = time.perf_counter_ns() - start_ns, scheduler_output.total_num_scheduled_tokens
        begun.clear()
        if output is None:
            begun.append((started_us, spent_ns, tokens))
        elif tokens:
            sender.model(started_us, spent_ns // 1000, tokens)
        return output

    @functools.wraps(sample)
    def sample_tokens(self: Any, *args: Any, **options: Any) -> Any:
        start_ns = time.perf_counter_ns()
        output = sample(self, *args, **options)
        if begun:
            started_us, spent_ns, tokens = begun.pop()
            sender.model(started_us, (spent_ns + time.perf_counter_ns() - start_ns) // 1000, tokens)
        return output

    runner.execute_model, runner.sample_tokens = execute_model, sample_tokens


def after_import(actions: Mapping[str, Action]) -> None:
    """Do something with modules as soon as they have been imported, by whomever; at once if they have been."""
    waiting = {}
    for name, action in actions.items():
        if name in sys.modules:
            _act(action, sys.modules[name])
        else:
            waiting[name] = action
    sys.meta_path.insert(0, _AfterImport(waiting))


class _AfterImport(MetaPathFinder):
    def __init__(self, actions: dict[str, Action]) -> None:
        self._actions = actions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Taken out first: the search below asks this finder again, which then leaves it to the others.
        action = self._actions.pop(fullname, None)
        spec = find_spec(fullname) if action else None
        if action is None or spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            _act(action, module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]  # of this one loader
        return spec


def _act(action: Action, module: ModuleType) -> None:
    try:
        action(module)
    except Exception:
        logger.exception("%s is not traced", module.__name__)  # the engine goes on
