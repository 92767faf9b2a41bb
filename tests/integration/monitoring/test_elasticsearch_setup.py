"""The script that prepares Elasticsearch puts policy and template where that expects them; here it is a stand-in."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

SHIPPED = Path(__file__).resolve().parents[3] / "deploy" / "elasticsearch"
pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing, which the script calls")


@dataclass
class Server:
    """What came: method and path, body, and the header that says who asks."""

    url: str = ""
    status: int = 200
    came: list[tuple[str, Any, str | None]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    seen = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            assert self.headers["content-type"] == "application/json"
            seen.came.append((self.path, body, self.headers["authorization"]))
            self.send_response(seen.status)
            self.end_headers()
            self.wfile.write(b'{"acknowledged":true}')

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        seen.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,))
        thread.start()
        yield seen
        listening.shutdown()
        thread.join()


def run(server: Server, **environ: str) -> "subprocess.CompletedProcess[str]":
    settings = {**os.environ, "ELASTICSEARCH_URL": server.url, **environ}
    return subprocess.run(
        ["sh", str(SHIPPED / "setup.sh")], env=settings, capture_output=True, text=True, timeout=60, check=False
    )


def test_policy_and_template_are_put_in_this_order(server: Server) -> None:
    assert run(server).returncode == 0

    policy, template = (
        json.loads((SHIPPED / name).read_text()) for name in ("lifecycle_policy.json", "index_template.json")
    )
    assert server.came == [
        ("/_ilm/policy/tenant-metrics", policy, None),
        ("/_index_template/tenant-metrics", template, None),
    ]


def test_a_key_is_sent_and_not_told(server: Server) -> None:
    ran = run(server, ELASTICSEARCH_API_KEY="c2VjcmV0")

    assert [who for _, _, who in server.came] == ["ApiKey c2VjcmV0"] * 2
    assert "c2VjcmV0" not in ran.stdout + ran.stderr


def test_what_the_server_refuses_ends_it(server: Server) -> None:
    server.status = 400

    assert run(server).returncode != 0
    assert len(server.came) == 1
