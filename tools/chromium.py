"""Chromium for the browser tests: installed where that is possible without asking.

``python tools/chromium.py`` installs it: as root on Debian; elsewhere it says what is missing.
"""

import os
import shutil
import subprocess
import sys

MISSING = "Chromium is missing: run python tools/chromium.py as root on Debian, or put it on the PATH"
_NAMES = ("chromium", "chromium-browser", "google-chrome")
_COMMANDS = (
    ("apt-get", "update", "-qq"),
    ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"),
)


class ChromiumMissing(Exception):
    """It is not installed and cannot be."""


def is_required() -> bool:
    """Whether a missing Chromium is a failure and not a reason to leave something out: in CI."""
    return os.environ.get("CI") == "true"


def program() -> str | None:
    """The program, if there is one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


def install() -> str:
    """Install what is missing; return the program.

    Raises:
        ChromiumMissing: it is not there, and this is not root on Debian or the installation failed.
    """
    if found := program():
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise ChromiumMissing(MISSING)
    sys.stdout.write("installing Chromium for the browser tests ...\n")
    sys.stdout.flush()
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in _COMMANDS:
        if subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode:
            raise ChromiumMissing(f"Chromium is missing, and this failed: {' '.join(command)}")
    if found := program():
        return found
    raise ChromiumMissing(MISSING)


def main() -> int:
    """Install it; say so if that is not possible, which in CI is a failure."""
    try:
        install()
    except ChromiumMissing as error:
        sys.stderr.write(f"{error}\n")
        return int(is_required())
    return 0


if __name__ == "__main__":
    sys.exit(main())
