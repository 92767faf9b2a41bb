"""A Prometheus for the tests: fetched where that is possible without asking, and one that lives as long as a block.

``python tools/prometheus.py`` fetches it: Debian's package, unpacked into ``.venv`` and not installed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MISSING = "Prometheus is missing: it is neither on the PATH nor in .venv/prometheus"
_FOLDER = Path(__file__).resolve().parent.parent / ".venv" / "prometheus"
_DOWNLOAD = ("apt-get", "download", "-qq", "prometheus")
_FETCH_S = 60.0
_START_S = 30.0
_CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms}}
scrape_configs: [{{job_name: sluice, static_configs: [{{targets: [{targets}]}}]}}]
"""


class PrometheusMissing(Exception):
    """It is not there and cannot be fetched."""


def is_required() -> bool:
    """Whether a missing Prometheus is a failure and not a reason to leave something out: in CI."""
    return os.environ.get("CI") == "true"


def program() -> Path | None:
    """The program, if there is one."""
    found = shutil.which("prometheus", path=f"{os.environ.get('PATH', '')}:{_FOLDER / 'usr' / 'bin'}")
    return Path(found) if found else None


def fetch() -> Path:
    """Fetch it if it is missing; return the program.

    Raises:
        PrometheusMissing: it is not there, and this is not Debian or the download failed or took too long.
    """
    if found := program():
        return found
    if not shutil.which("apt-get"):
        raise PrometheusMissing(MISSING)
    sys.stdout.write("fetching Prometheus for the tests ...\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory() as folder:
        try:
            _run(folder, *_DOWNLOAD)
        except PrometheusMissing:  # perhaps nobody has asked yet what there is
            _run(folder, "apt-get", "update", "-qq")
            _run(folder, *_DOWNLOAD)
        _run(folder, "dpkg-deb", "-x", *(path.name for path in Path(folder).glob("*.deb")), str(_FOLDER))
    if found := program():
        return found
    raise PrometheusMissing(MISSING)


def _run(folder: str, *command: str) -> None:
    try:
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True, timeout=_FETCH_S)
    except (subprocess.SubprocessError, OSError) as error:
        raise PrometheusMissing(f"Prometheus is missing, and this failed: {' '.join(command)}") from error


@contextmanager
def server(port: int, *targets: str) -> Iterator[str]:
    """Run one that scrapes ``targets`` (host:port) five times a second; the value is its URL.

    Raises:
        PrometheusMissing: there is none.
        RuntimeError: it did not start.
    """
    found = program()
    if found is None:
        raise PrometheusMissing(MISSING)
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(prefix="sluice-prometheus-") as home:
        config = Path(home, "prometheus.yml")
        config.write_text(_CONFIG.format(targets=", ".join(f"'{target}'" for target in targets)))
        where = (
            f"--config.file={config}",
            f"--storage.tsdb.path={home}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        )
        process = subprocess.Popen([str(found), *where], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_ready(process, url)
            yield url
        finally:
            process.terminate()
            process.wait(_START_S)


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str) -> None:
    end = time.monotonic() + _START_S
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.05)
    raise RuntimeError("Prometheus did not start")


def main() -> int:
    """Fetch it; say so if that is not possible, which in CI is a failure."""
    try:
        fetch()
    except PrometheusMissing as error:
        sys.stderr.write(f"{error}\n")
        return int(is_required())
    return 0


if __name__ == "__main__":
    sys.exit(main())
