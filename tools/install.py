"""Make ``.venv`` hold what this checkout needs; needs nothing but Python 3.11 itself.

The requirement lists are complete, so pip installs them without resolving anything. What is there already
is skipped, and two installations at once wait for each other.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMPS = VENV / "stamps"
LOG = VENV / "install.log"
TIMES = VENV / "install-times.json"
PIP = ("-m", "pip", "--no-input", "--disable-pip-version-check")
_TELL_EVERY_S = 10.0
_POLL_S = 0.2
_STEPS = ("Collecting", "Downloading", "Building", "Installing", "Preparing")


class InstallFailed(Exception):
    """A command failed; the message says which and ends with its last lines."""


class Progress:
    """Says what is being done and for how long; on a terminal in place."""

    def __init__(self) -> None:
        self.times: dict[str, float] = {}
        self._is_terminal = sys.stdout.isatty()
        self._told_at = 0.0

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time what happens inside."""
        started = self._told_at = time.monotonic()
        self._line(f"{name} ...", is_passing=True)
        yield
        self.times[name] = time.monotonic() - started
        self._line(f"{name}: {self.times[name]:.1f} s", is_passing=False)

    def tick(self, started: float, detail: str) -> None:
        """Show that it still goes on."""
        now = time.monotonic()
        if self._is_terminal or now - self._told_at >= _TELL_EVERY_S:
            self._told_at = now
            self._line(f"  {now - started:4.0f} s  {detail}"[:100], is_passing=True)

    def _line(self, text: str, *, is_passing: bool) -> None:
        if self._is_terminal:
            sys.stdout.write(f"\r\x1b[2K{text}" + ("" if is_passing else "\n"))
        else:
            sys.stdout.write(f"{text}\n")
        sys.stdout.flush()


def main() -> int:
    """Install, and return the exit status."""
    options = _options()
    if sys.version_info[:2] != (3, 11):
        sys.stderr.write(
            f"Sluice needs Python 3.11, this is {sys.version.split()[0]}: make PYTHON=/path/to/python3.11\n"
        )
        return 1
    progress = Progress()
    try:
        with _only_one():
            _install(options, progress)
    except InstallFailed as error:
        sys.stderr.write(f"\n{error}\nFull log: {LOG}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nStopped; the next run goes on from here.\n")
        return 130
    TIMES.write_text(json.dumps({f"install: {name}": duration_s for name, duration_s in progress.times.items()}))
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dev", action="store_true", help="also what the checks and tests need")
    parser.add_argument("--engine", choices=("auto", "cpu", "gpu", "none"), default="auto")
    parser.add_argument("--for-up", metavar="ARGS", default="", help="arguments of `manage.py up`: which engine it is")
    parser.add_argument(
        "--torch-index", metavar="URL", default="", help="second source of torch, if the first has none"
    )
    return parser.parse_args()


def _install(options: argparse.Namespace, progress: Progress) -> None:
    _make_venv(progress)
    _install_list("gateway", "gateway packages", "", progress)
    engine = _engine(options)
    if engine != "none":
        _install_list(f"engine-{engine}", f"engine packages ({engine})", options.torch_index, progress)
    if options.dev:
        _install_list("dev", "development packages", "", progress)
    _install_project(progress)


def _engine(options: argparse.Namespace) -> str:
    if options.engine != "auto":
        return str(options.engine)
    if _asked_engine(options.for_up) == "simulator":
        return "none"
    return "gpu" if _has_gpu() else "cpu"


def _asked_engine(arguments: str) -> str:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--engine", default=os.environ.get("SLUICE_ENGINE", "vllm"))
    return str(parser.parse_known_args(shlex.split(arguments))[0].engine)


def _has_gpu() -> bool:
    program = shutil.which("nvidia-smi")
    return program is not None and subprocess.run([program, "-L"], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    # The directory itself is the lock: nothing to clean up, and it is let go of at death.
    descriptor = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.stdout.write("waiting for another installation ...\n")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_venv(progress: Progress) -> None:
    has_moved = (STAMPS / "venv").exists() and not _is_stamped("venv", str(VENV))
    if _venv_runs() and not has_moved:
        return
    with progress.phase("virtual environment"):
        shutil.rmtree(VENV, ignore_errors=True)
        VENV.mkdir()
        try:
            _run([sys.executable, "-m", "venv", str(VENV)], progress)
        except InstallFailed:
            _make_venv_without_ensurepip(progress)
        _stamp("venv", str(VENV))


def _make_venv_without_ensurepip(progress: Progress) -> None:
    """Distributions that ship venv's pip apart: a pip of the system's installs one."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], progress)
    _run([sys.executable, "-m", "pip", "--python", str(PYTHON), "install", "pip"], progress)


def _venv_runs() -> bool:
    command = [str(PYTHON), "-c", "import sys, pip; sys.exit(sys.version_info[:2] != (3, 11))"]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _install_list(name: str, label: str, second_index: str, progress: Progress) -> None:
    path = ROOT / "requirements" / f"{name}.txt"
    content = path.read_text(encoding="utf-8")
    if _is_stamped(name, content):
        return
    # Compiling everything now costs more than compiling, later, the part that is used.
    command = [str(PYTHON), *PIP, "install", "--no-deps", "--no-compile", "--progress-bar", "off", "-r", str(path)]
    with progress.phase(label):
        try:
            _run(command, progress)
        except InstallFailed:
            if not second_index:
                raise
            _run([*command, "--extra-index-url", second_index], progress)
        _stamp(name, content)


def _install_project(progress: Progress) -> None:
    """Make the checkout importable and register its entry points, which the engine looks for."""
    content = f"{ROOT}\n{(ROOT / 'pyproject.toml').read_text(encoding='utf-8')}"
    if _is_stamped("project", content):
        return
    with progress.phase("this project"):
        _run([str(PYTHON), *PIP, "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT)], progress)
        _stamp("project", content)


def _run(command: list[str], progress: Progress) -> None:
    """Run ``command``, its output in the log.

    Raises:
        InstallFailed: it ended with a failure.
    """
    started = time.monotonic()
    with LOG.open("ab") as log:
        log.write(f"$ {shlex.join(command)}\n".encode())
        log.flush()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=ROOT)
        try:
            while process.poll() is None:
                time.sleep(_POLL_S)
                progress.tick(started, _latest_step())
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        raise InstallFailed(f"Failed: {shlex.join(command)}\n{_last_lines(12)}")


def _latest_step() -> str:
    """What pip does now, without its warnings and details."""
    steps = [line.strip() for line in _last_lines(40).splitlines()]
    return next((step for step in reversed(steps) if step.startswith(_STEPS)), "")


def _last_lines(number: int) -> str:
    try:
        text = LOG.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-number:])


def _is_stamped(name: str, content: str) -> bool:
    try:
        return (STAMPS / name).read_text() == _digest(content)
    except FileNotFoundError:
        return False


def _stamp(name: str, content: str) -> None:
    STAMPS.mkdir(exist_ok=True)
    (STAMPS / name).write_text(_digest(content))


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
