"""A Postgres for the tests: installed where that is possible without asking, and one that lives as long as a command.

``python tools/postgres.py`` installs it: as root on Debian; elsewhere it says what is missing.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

MISSING = "Postgres is missing: its initdb is neither on the PATH nor under /usr/lib/postgresql"
NAME = "sluice"
_OWNER = ("postgres", "postgres")
_START_S = 30.0
_STOP_S = 20.0
_PACKAGES = Path("/usr/lib/postgresql")
_COMMANDS = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "postgresql"),
)
# Nothing that it holds outlives it, so it need not survive a power cut.
_CARELESS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_OPTIONS = ("listen_addresses=", "max_connections=200", "unix_socket_permissions=0700", *_CARELESS)
_PR_SET_PDEATHSIG = 1


class PostgresMissing(Exception):
    """It is not installed and cannot be."""


def is_required() -> bool:
    """Whether a missing Postgres is a failure and not a reason to leave something out: in CI."""
    return os.environ.get("CI") == "true"


def programs() -> Path | None:
    """The folder that holds ``initdb`` and ``postgres``, of the newest version if there are several."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    folders = [folder / "bin" for folder in _PACKAGES.glob("*") if (folder / "bin" / "initdb").exists()]
    return max(folders, key=lambda folder: int(re.sub(r"\D", "", folder.parent.name) or 0), default=None)


def install() -> Path:
    """Install what is missing; return the folder of the programs.

    Raises:
        PostgresMissing: it is not there, and this is not root on Debian or the installation failed.
    """
    if found := programs():
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise PostgresMissing(MISSING)
    sys.stdout.write("installing Postgres for the tests ...\n")
    sys.stdout.flush()
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in _COMMANDS:
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
            raise PostgresMissing(f"Postgres is missing, and this failed: {' '.join(command)}")
    if found := programs():
        return found
    raise PostgresMissing(MISSING)


@contextmanager
def cluster(*options: str) -> Iterator[str]:
    """Run a new, empty Postgres on a socket of its own; the value is the URL of its database.

    It ends with the block, or with this process, however that ends. ``options`` are further settings as ``name=value``.

    Raises:
        PostgresMissing: it is not installed.
        RuntimeError: it did not start; the message ends with its log.
    """
    folder = programs()
    if folder is None:
        raise PostgresMissing(MISSING)
    # Short and open to all: a socket's path is bounded, and Postgres runs as another user than root.
    home = Path(tempfile.mkdtemp(prefix="sluice-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            shutil.chown(home, *_OWNER)
        with _running(folder, home, options):
            yield f"postgres://{NAME}@{quote(str(home), safe='')}/{NAME}"
    finally:
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def _running(folder: Path, home: Path, options: tuple[str, ...]) -> Iterator[None]:
    data, log = home / "data", (home / "log").open("w+")
    user, group = _OWNER if os.geteuid() == 0 else (None, None)

    def start(program: str, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [str(folder / program), *arguments],
            cwd=home,
            user=user,
            group=group,
            extra_groups=[] if user else None,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            preexec_fn=_end_with_parent,
        )

    def run(program: str, *arguments: str) -> bool:
        return start(program, *arguments).wait(_START_S) == 0

    def failed() -> RuntimeError:
        log.seek(0)
        return RuntimeError(f"Postgres did not start:\n{log.read()[-2000:]}")

    with log:
        how = ("--username", NAME, "--auth", "trust", "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync")
        if not run("initdb", "--pgdata", str(data), *how):
            raise failed()
        settings = [part for option in (*_OPTIONS, *options) for part in ("-c", option)]
        server = start("postgres", "-D", str(data), "-k", str(home), *settings)
        try:
            end = time.monotonic() + _START_S
            while not run("pg_isready", "--quiet", "--host", str(home)):
                if server.poll() is not None or time.monotonic() > end:
                    raise failed()
                time.sleep(0.05)
            if not run("createdb", "--host", str(home), "--username", NAME, NAME):
                raise failed()
            yield
        finally:
            _stop(server)


def _stop(server: "subprocess.Popen[bytes]") -> None:
    server.send_signal(signal.SIGINT)  # ends its clients' sessions and leaves
    try:
        server.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        server.send_signal(signal.SIGQUIT)  # at once, with all its children
        server.wait()


def _end_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


def main() -> int:
    """Install it; say so if that is not possible, which in CI is a failure."""
    try:
        install()
    except PostgresMissing as error:
        sys.stderr.write(f"{error}\n")
        return int(is_required())
    return 0


if __name__ == "__main__":
    sys.exit(main())
