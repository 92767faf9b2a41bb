"""Keys and tokens, made in every way and sent to every wrong place, are found nowhere afterwards."""

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance import batches
from tests.stack import ROOT, STOP_S, Stack, start, wait_until

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"
KEY = re.compile(r"sk-sluice-[0-9A-Za-z]{8}-[0-9A-Za-z]{40}")
QUESTION = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 4}


@pytest.fixture(scope="module")
def spans() -> Iterator[tuple[str, list[bytes]]]:
    """Address of a collector, and what it was sent."""
    received: list[bytes] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()


class Operator:
    """A person who is logged in."""

    def __init__(self, running: Stack) -> None:
        self.http = httpx.Client(base_url=running.root_url, timeout=30, follow_redirects=True, verify=False)
        self.post("/admin/login/", username=running.ready["admin_user"], password=running.ready["admin_password"])

    def post(self, path: str, **fields: str) -> httpx.Response:
        """Send a form, as the page would."""
        self.http.get(path)
        return self.http.post(path, data={**fields, "csrfmiddlewaretoken": self._csrf()})

    def close(self) -> None:
        """Leave."""
        self.http.close()

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Call the operators' API in the session."""
        answer = self.http.request(method, f"/api/v1/{path}", json=body, headers={"X-CSRFToken": self._csrf()})
        answer.raise_for_status()
        return answer.json()

    def _csrf(self) -> str:
        return next(value for name, value in self.http.cookies.items() if name.startswith("sluice_csrf"))


def by_command(running: Stack) -> str:
    arguments = ("token", "create", "--user", running.ready["admin_user"], "--name", "nightly", "--role", "admin")
    environ = {**os.environ, "SLUICE_DATA_DIR": str(running.data_dir)}
    command = [sys.executable, "manage.py", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, text=True, timeout=120)
    return done.stdout.strip()


def make_secrets(running: Stack, operator: Operator) -> tuple[list[str], list[str]]:
    """API keys by page, by REST and by rotation of both; tokens by REST and by command."""
    (demo,) = running.query("SELECT id FROM tenants_tenant WHERE slug = 'demo'")[0]
    plan = {"scopes": "inference", "max_concurrent": "", "allowed_addresses": ""}
    keys = KEY.findall(operator.post("/admin/tenants/apikey/add/", tenant=str(demo), name="by page", **plan).text)[:1]
    assert keys, "the page shows the key"
    made = operator.api("POST", "keys", {"tenant": "demo", "name": "by REST"})
    keys += [made["key"], operator.api("POST", f"keys/{made['id']}/rotate", {"grace_s": 600})["key"]]
    (by_page,) = running.query("SELECT id FROM tenants_apikey WHERE name = 'by page'")[0]
    keys += KEY.findall(operator.post(f"/admin/tenants/apikey/{by_page}/rotate/", grace_s="3600").text)[:1]
    assert len(set(keys)) == 4
    token = operator.api("POST", "tokens", {"name": "by REST", "role": "billing"})["token"]
    return keys, [token, by_command(running)]


def use_where_it_belongs(web: httpx.Client, running: Stack, keys: list[str], tokens: list[str]) -> None:
    for key in keys:
        bearer = {"authorization": f"Bearer {key}"}
        wait_until(lambda h=bearer: web.get(f"{running.base_url}/models", headers=h).status_code == 200, 20)
        for stream in (False, True):
            answer = web.post(
                f"{running.base_url}/chat/completions", json={**QUESTION, "stream": stream}, headers=bearer
            )
            assert answer.status_code == 200, answer.text
    for token in tokens:
        found = web.get(f"{running.root_url}/api/v1/me", headers={"authorization": f"Token {token}"})
        assert found.status_code == 200, found.text


def use_where_it_does_not_belong(web: httpx.Client, running: Stack, operator: Operator, secret: str) -> None:
    root = running.root_url
    bearer = {"authorization": f"Bearer {running.api_key}"}
    web.get(f"{running.base_url}/models", params={"api_key": secret})
    web.get(f"{running.base_url}/models/{secret}", headers=bearer)
    web.get(f"{root}/{secret}")
    web.get(f"{root}/v1/{secret}", headers=bearer)
    web.get(f"{root}/api/v1/{secret}")
    for scheme in ("Bearer", "Token", "Basic", "Digest", ""):
        for path in ("/v1/models", "/api/v1/me", "/admin/"):
            web.get(f"{root}{path}", headers={"authorization": f"{scheme} {secret}".strip()})
    odd = {"x-api-key": secret, "x-request-id": secret, "user-agent": secret, "traceparent": f"00-{secret}-00-01"}
    web.post(f"{running.base_url}/chat/completions", json={**QUESTION, "model": secret}, headers=bearer)
    cookie = {**odd, "cookie": f"sluice_session={secret}"}
    for headers in ({**bearer, **odd}, {**bearer, "idempotency-key": secret}, cookie):
        web.post(f"{running.base_url}/chat/completions", json=QUESTION, headers=headers)
    web.post(f"{running.base_url}/chat/completions", content=f'{{"model": "{secret}'.encode(), headers=bearer)
    for path in ("/admin/tenants/apikey/", "/api/v1/keys"):
        operator.http.get(path, params={"q": secret} if "admin" in path else {"search": secret})
    operator.http.get("/api/v1/usage/records", params={"model": secret})
    with httpx.Client(base_url=root, follow_redirects=True, verify=False) as stranger:
        stranger.get("/admin/login/")
        csrf = next(value for name, value in stranger.cookies.items() if name.startswith("sluice_csrf"))
        stranger.post("/admin/login/", data={"username": secret, "password": secret, "csrfmiddlewaretoken": csrf})


def what_operators_read(operator: Operator) -> dict[str, bytes]:
    """Exports, audit log and pages, as bytes."""
    paths = {
        "csv": "/api/v1/usage/export?format=csv",
        "parquet": "/api/v1/usage/export?format=parquet",
        "invoice": f"/api/v1/tenants/demo/invoice?format=csv&month={datetime.now(UTC):%Y-%m}",
        "audit": "/api/v1/audit-log?page_size=500",
        "keys": "/api/v1/keys",
        "tokens": "/api/v1/tokens",
        "keys page": "/admin/tenants/apikey/",
        "usage page": "/admin/tenants/usagerecord/",
        "history": "/admin/auditlog/logentry/",
    }
    found = {}
    for name, path in paths.items():
        answer = operator.http.get(path)
        assert answer.status_code == 200, (name, answer.text[:300])
        found[name] = answer.content
    return found


def files_of(data_dir: Path) -> dict[str, bytes]:
    """All that the instance wrote, its own secrets apart; the database as text too."""
    found = {
        str(path.relative_to(data_dir)): path.read_bytes()
        for path in data_dir.rglob("*")
        if path.is_file() and "secrets" not in path.parts and path.name != "ready.json"
    }
    with sqlite3.connect(data_dir / "sluice.sqlite3") as database:
        found["database"] = "\n".join(database.iterdump()).encode()
    found["output"] = (data_dir.parent / f"{data_dir.name}.out").read_bytes()
    return found


@pytest.fixture
def running(tmp_path: Path, spans: tuple[str, list[bytes]]) -> Iterator[Stack]:
    """The product on the simulator; it traces its runs and logs all it can."""
    options = ("--engine", "simulator", "--sim-profile", "zero", "--no-flower", "--bulk", "1")
    environ = {"SLUICE_OTLP_ENDPOINT": spans[0], "SLUICE_LOG_LEVEL": "debug"}
    with start(tmp_path / "data", *options, environ=environ) as stack:
        yield stack


def test_no_key_and_no_token_is_found_after_a_run(running: Stack, spans: tuple[str, list[bytes]]) -> None:
    # One client for all, since making it reads all the certificates that there are.
    with closing(Operator(running)) as operator, httpx.Client(verify=False, timeout=30) as web:
        keys, tokens = make_secrets(running, operator)
        use_where_it_belongs(web, running, keys, tokens)
        with running.client(api_key=keys[0]) as client:
            batch_id = batches.run(client, batches.chats(3)).id
        for secret in (keys[0], tokens[0]):
            use_where_it_does_not_belong(web, running, operator, secret)
        wait_until(lambda: len(running.usage_rows()) >= 8, 20)
        read = what_operators_read(operator)
    running.process.send_signal(signal.SIGTERM)
    running.process.wait(STOP_S)
    places = {**files_of(running.data_dir), **read, "spans": b"".join(spans[1])}

    assert len(places["spans"]) > 1000, "runs are traced"
    assert batch_id.encode() in places["spans"], "batches too"
    assert b"by REST" in places["audit"], "who made what is told"
    assert json.loads(places["tokens"])["count"] == 2
    for secret in keys + tokens:
        hidden = secret.rsplit("-", 1)[1]
        assert [name for name, content in places.items() if hidden.encode() in content] == []
    # A digest is in its column and in nothing that is shown, written along or sent away.
    digests = [hashlib.sha256(key.encode()).hexdigest() for key in keys]
    digests += [hashlib.sha512(token.encode()).hexdigest() for token in tokens]
    stored = {"database"} | {name for name in places if name.startswith("sluice.sqlite3")}
    for digest in digests:
        assert {name for name, content in places.items() if digest.encode() in content} <= stored
