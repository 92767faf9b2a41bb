"""Counts launches of Triton kernels in this process, through the hook that Triton offers for it."""

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from domain.trace.launches import OTHERS, LaunchCounter

NO_TRITON = "Triton is not installed"
NO_HOOK = "this Triton has no triton.knobs.runtime.launch_enter_hook to add to"


def why_off() -> str:
    """Why there is nothing to count; "" where Triton is installed."""
    return "" if find_spec("triton") else NO_TRITON


def count_launches(counter: LaunchCounter, clock_us: Callable[[], int], after: Callable[[int], None]) -> str:
    """Count every launch from now on by its kernel's name; ``after`` is called after each, with its moment.

    Returns:
        Why it cannot be done, or "".
    """
    if reason := why_off():
        return reason
    try:
        chain: Any = import_module("triton.knobs").runtime.launch_enter_hook
        add = chain.add
    except (ImportError, AttributeError):
        return NO_HOOK
    pid = os.getpid()

    def on_launch(metadata: Any) -> None:
        at_us = clock_us()
        counter.add(at_us, pid, _name(metadata))
        after(at_us)

    add(on_launch)
    return ""


def _name(metadata: Any) -> str:
    # ``get()`` would also run what a kernel's author adds to it, which may wait for the GPU.
    data = getattr(metadata, "data", None)
    return str(data.get("name", OTHERS)) if isinstance(data, dict) else OTHERS
