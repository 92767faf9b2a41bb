"""``python -m tools.on_postgres COMMAND...``: run a command whose ``SLUICE_DATABASE_URL`` names a new, empty Postgres.

The Postgres ends with the command. Where none can be had the command is left out, which in CI is a failure.
"""

import os
import signal
import subprocess
import sys
from types import FrameType

from tools.postgres import PostgresMissing, cluster, install, is_required


def main(command: list[str]) -> int:
    """Run ``command``; return its exit status."""
    try:
        install()
    except PostgresMissing as error:
        sys.stderr.write(f"{error}; not run on Postgres: {' '.join(command)}\n")
        return int(is_required())
    with cluster() as url, subprocess.Popen(command, env={**os.environ, "SLUICE_DATABASE_URL": url}) as running:
        try:
            return running.wait()
        except BaseException:
            running.terminate()
            raise


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _leave)  # so that the Postgres is stopped then too
    sys.exit(main(sys.argv[1:]))
