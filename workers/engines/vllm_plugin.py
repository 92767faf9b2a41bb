"""Loaded by vLLM in every process that it starts (entry point ``vllm.general_plugins``)."""

import ctypes
import multiprocessing
import os
import signal

from workers.engines import vllm_hooks

_PR_SET_PDEATHSIG = 1


def register() -> None:
    """Tie this process to its parent, and trace in it what the parent asks for; nothing in the first process."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    _die_with(parent.pid)
    vllm_hooks.trace()


def _die_with(parent_pid: int | None) -> None:
    """Let the kernel kill this process when its parent dies, however that dies.

    The kernel watches the parent's *thread*: the engine is started from the thread that lives as long as it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent_pid:
        # It died before the kernel was told.
        os._exit(1)
