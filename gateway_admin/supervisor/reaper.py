"""Learn which children have ended."""

import os


def next_ended() -> int | None:
    """Process id of a child, own or adopted, that has ended and waits to be collected; None when there is none."""
    try:
        # Left uncollected: until its owner has ended its group, its number must not pass to a stranger.
        result = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    return result.si_pid if result else None


def collect(pid: int) -> None:
    """Collect an adopted child."""
    os.waitpid(pid, 0)
