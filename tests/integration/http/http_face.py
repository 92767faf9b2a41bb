"""A gateway's HTTP face in this process: real server, handler, views and rules; the pipeline behind is a double."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import uvicorn

from domain.qos import QosClass
from gateway.connection import Receive, Send
from gateway.runtime import Runtime
from gateway.schema import Ask
from gateway_admin.asgi import Application
from gateway_admin.serve import server_config
from tenants.keys import key_digest
from tenants.snapshot import KeyRow, PlanRow, Principal, Snapshot, TenantRow
from tracing.colour import Colour
from workers.state import WorkerState

KEY, NARROW_KEY = "sk-" + "a" * 40, "sk-" + "b" * 40
REVOKED_KEY, EXPIRED_KEY, DISABLED_KEY = "sk-" + "c" * 40, "sk-" + "d" * 40, "sk-" + "e" * 40
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def snapshot() -> Snapshot:
    """Tenants of every kind."""
    every = PlanRow("gold", QosClass.P0, 1.0, None, None, None, None)
    narrow = PlanRow("narrow", QosClass.P1, 1.0, None, None, None, frozenset({"another-model"}))
    keys = {
        KEY: KeyRow(1, 1, KEY[:8], None, None),
        NARROW_KEY: KeyRow(2, 2, NARROW_KEY[:8], None, None),
        REVOKED_KEY: KeyRow(3, 1, REVOKED_KEY[:8], None, LONG_AGO),
        EXPIRED_KEY: KeyRow(4, 1, EXPIRED_KEY[:8], LONG_AGO, None),
        DISABLED_KEY: KeyRow(5, 3, DISABLED_KEY[:8], None, None),
    }
    tenants = {
        1: TenantRow("acme", 1, True, "0" * 32),
        2: TenantRow("narrow", 2, True, "1" * 32),
        3: TenantRow("gone", 1, False, "2" * 32),
    }
    return Snapshot(1, {1: every, 2: narrow}, tenants, {key_digest(key): row for key, row in keys.items()})


def worker(model: str, state: str = "ready", reason: str = "") -> WorkerState:
    """A worker as the runtime sees it."""
    return WorkerState("worker-1", model, "simulator", "1.0.0-abc", state, reason, 32, 32, 0, 2048, 1_700_000_000)


class Pipeline:
    """Stands where ``gateway.pipeline.submit`` stands, and keeps what reached it."""

    def __init__(self) -> None:
        self.seen: list[tuple[Principal, Ask, bytes, Colour]] = []

    async def submit(self, principal: Principal, ask: Ask, body: bytes, colour: Colour) -> "Echo":
        """Note the request and answer with its size."""
        self.seen.append((principal, ask, body, colour))
        return Echo(body, colour)


class Echo:
    """An answer that says how large the body was."""

    def __init__(self, body: bytes, colour: Colour) -> None:
        self._body, self._colour = body, colour

    async def send_to(self, receive: Receive, send: Send) -> None:
        """Write it."""
        headers = [(b"content-type", b"application/json"), (b"x-request-id", self._colour.request_id.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"bytes":%d}' % len(self._body)})


def prepare(runtime: Runtime) -> None:
    """Put a runtime into the state of one that has been running for a while."""
    runtime.snapshot.current = snapshot()
    runtime.workers = [worker(runtime.config.model_name), worker("org/another-model")]
    runtime.store_error = ""


@contextmanager
def serve() -> Iterator[str]:
    """Run the server on a free port; yields its base URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(Application(), lifespan="off"))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
