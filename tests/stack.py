"""The whole product, started as a user starts it, for tests from outside."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
from openai import AsyncOpenAI, OpenAI
from redis import Redis

ROOT = Path(__file__).resolve().parent.parent
START_S = 480.0
NO_CACHE = {"SLUICE_RESPONSE_CACHE": "false"}
STOP_S = 60.0

_ADD_TENANTS = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_admin.settings"
import django
django.setup()
from tenants.models import Plan, Tenant
from tenants.provision import create_key
keys = {}
for name, fields in json.loads(sys.argv[1]).items():
    limits_of_key = fields.pop("key", {})
    plan = Plan.objects.create(name=name, **fields)
    key, keys[name] = create_key(Tenant.objects.create(slug=name, name=name, plan=plan), name)
    for field, value in limits_of_key.items():
        setattr(key, field, value)
    key.save()
print(json.dumps(keys))
"""


@dataclass(frozen=True, slots=True)
class Stack:
    """A running instance.

    Attributes:
        process: the supervisor.
        data_dir: its data directory.
        ready: what ``ready.json`` says.
    """

    process: "subprocess.Popen[bytes]"
    data_dir: Path
    ready: Mapping[str, Any]

    @property
    def base_url(self) -> str:
        """Ends in /v1."""
        return str(self.ready["base_url"])

    @property
    def root_url(self) -> str:
        """Without /v1."""
        return self.base_url.removesuffix("/v1")

    @property
    def api_key(self) -> str:
        """The demo tenant's key."""
        return str(self.ready["api_key"])

    def client(self, **options: Any) -> OpenAI:
        """The official client; it does not retry unless asked to."""
        return OpenAI(**{"base_url": self.base_url, "api_key": self.api_key, "max_retries": 0, **options})

    def async_client(self, **options: Any) -> AsyncOpenAI:
        """The official asynchronous client."""
        return AsyncOpenAI(**{"base_url": self.base_url, "api_key": self.api_key, "max_retries": 0, **options})

    def http(self, **options: Any) -> httpx.Client:
        """A bare client with the key."""
        headers = {"authorization": f"Bearer {self.api_key}"}
        return httpx.Client(**{"base_url": self.base_url, "headers": headers, "timeout": 60, **options})

    def store(self, db: int = 0) -> Redis:
        """The database of the ready sets, or another one."""
        return Redis.from_url(f"{self._valkey_url}/{db}", socket_timeout=5)

    @property
    def broker_url(self) -> str:
        """Where Celery's queues are."""
        return f"{self._valkey_url}/1"

    @property
    def valkey_port(self) -> int:
        """Where the store listens."""
        return int(json.loads((self.data_dir / "ports.json").read_text())["valkey"])

    @property
    def _valkey_url(self) -> str:
        password = (self.data_dir / "secrets" / "valkey_password").read_text().strip()
        return f"redis://:{password}@127.0.0.1:{self.valkey_port}"

    def children(self, part: str) -> list[psutil.Process]:
        """Live child processes of the supervisor whose command line contains ``part``."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if part in " ".join(child.cmdline()) and child.status() != psutil.STATUS_ZOMBIE:
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
        return found

    def usage_rows(self, columns: str = "request_id, outcome, status, prompt_tokens, completion_tokens") -> list[Any]:
        """Rows of the usage table, as tuples."""
        return self.query(f"SELECT {columns} FROM tenants_usagerecord")

    def query(self, statement: str) -> list[Any]:
        """What the database answers, as tuples; it is only read."""
        with sqlite3.connect(f"file:{self.data_dir / 'sluice.sqlite3'}?mode=ro", uri=True, timeout=10) as database:
            return database.execute(statement).fetchall()

    def add_tenants(self, plans: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Make one tenant for each name, on a plan of its own with these fields; return their keys.

        The field ``key`` holds those of the tenant's key.
        Returns once the gateways know them.
        """
        environ = {**os.environ, "SLUICE_DATA_DIR": str(self.data_dir)}
        command = [sys.executable, "-c", _ADD_TENANTS, json.dumps(plans)]
        made = subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, timeout=120)
        keys: dict[str, str] = json.loads(made.stdout)
        for key in keys.values():
            wait_until(lambda key=key: self._all_gateways_know(key), 20, "a gateway never learned the new key")
        return keys

    def _all_gateways_know(self, key: str) -> bool:
        # One listening socket feeds all gateways: enough fresh connections reach each of them.
        headers = {"authorization": f"Bearer {key}", "connection": "close"}
        answers = [httpx.get(f"{self.base_url}/models", headers=headers, timeout=20) for _ in range(8)]
        return all(answer.status_code == 200 for answer in answers)

    def leftovers(self) -> dict[str, int]:
        """What must be gone when nothing runs: items, slots, held and waiting items, by kind."""
        store = self.store()
        counts: dict[str, int] = {}
        for kind in ("item", "slots", "held", "gwitems", "ready"):
            keys = list(store.scan_iter(f"sl:{kind}:*", count=1000))
            if keys:
                counts[kind] = len(keys)
        return counts


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(what: Callable[[], Any], timeout_s: float, message: str = "") -> Any:
    """Wait for a true value and return it; the time is a bound, not an expectation.

    Raises:
        AssertionError: it did not come true.
    """
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        value = what()
        if value:
            return value
        time.sleep(0.05)
    raise AssertionError(message or f"did not come true within {timeout_s} s: {what}")


@contextmanager
def start(data_dir: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> Iterator[Stack]:
    """Run ``manage.py up`` with ``arguments`` until ready; stop it at the end and expect a clean exit.

    Without a worker for embeddings and a process for batches, unless they are asked for; and without the response
    cache unless ``environ`` asks for it: equal requests are then computed, each of them.
    """
    command = [sys.executable, "manage.py", "up", "--data-dir", str(data_dir), "--port", str(free_port()), *arguments]
    command += [] if "--embeddings" in arguments else ["--no-embeddings"]
    command += [] if "--bulk" in arguments else ["--bulk", "0"]
    log = (data_dir.parent / f"{data_dir.name}.out").open("wb")
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **NO_CACHE, **(environ or {})}
    )
    try:
        yield Stack(process, data_dir, _wait_ready(process, data_dir, Path(log.name)))
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(timeout=STOP_S)
        log.close()


def _wait_ready(process: "subprocess.Popen[bytes]", data_dir: Path, log: Path) -> Mapping[str, Any]:
    ready = data_dir / "ready.json"
    end = time.monotonic() + START_S
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise AssertionError(f"did not become ready:\n{log.read_text()[-4000:]}")
        time.sleep(0.1)
    found: Mapping[str, Any] = json.loads(ready.read_text())
    return found
