"""Start a process that cannot outlive this one, and that a terminal's Ctrl-C does not reach."""

import ctypes
import os
import resource
import signal
import subprocess
from collections.abc import Mapping
from typing import IO

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_MOST_FILES = 65_536
# Loaded before any fork: the dynamic loader must not run between fork and exec.
_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Make this process the parent of its descendants' orphans, so that it can find and end them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def raise_file_limit() -> None:
    """Let the children hold as many connections as the system allows, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(_MOST_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def spawn(
    argv: tuple[str, ...],
    env: Mapping[str, str],
    log: IO[bytes],
    *,
    pass_fds: tuple[int, ...] = (),
    death_signal: int = signal.SIGKILL,
) -> "subprocess.Popen[bytes]":
    """Run ``argv`` in a session of its own with both outputs in ``log``; the kernel ends it with this thread.

    The caller must have a single thread: the kernel watches the forking thread, not the process, and only
    async-signal-safe work may follow the fork of a process with several.

    Raises:
        OSError: the program cannot be started.
    """
    parent = os.getpid()

    def tie_to_parent() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
        if os.getppid() != parent:  # it died before the kernel was asked to watch
            os._exit(1)

    return subprocess.Popen(
        argv,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        pass_fds=pass_fds,
        start_new_session=True,
        preexec_fn=tie_to_parent,
    )
