"""A gateway's HTTP face in this process: real server, handler, views and rules; the pipeline behind is a double."""

import asyncio
import socket
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import Queue
from typing import Any

import uvicorn

from domain.limits import Level, Limit
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


ASKING_KEY, READING_KEY = "sk-" + "f" * 40, "sk-" + "g" * 40
HOME_KEY, AWAY_KEY = "sk-" + "h" * 40, "sk-" + "i" * 40
ALL_SCOPES = frozenset({"inference", "usage"})


def plan(name: str, best_class: QosClass, models: frozenset[str] | None, *limits: Limit) -> PlanRow:
    """A plan of weight 1 that shares nothing and keeps nothing."""
    return PlanRow(name, best_class, 1.0, limits, models, False, 0)


def key_row(
    text: str,
    key_id: int,
    tenant_id: int = 1,
    *,
    expires_at: datetime | None = None,
    revoked_at: datetime | None = None,
    scopes: frozenset[str] = ALL_SCOPES,
    addresses: tuple[str, ...] = (),
    limits: tuple[Limit, ...] = (),
) -> KeyRow:
    """A key that may do everything, unless said otherwise."""
    return KeyRow(key_id, tenant_id, text[3:11], expires_at, revoked_at, scopes, addresses, limits)


def snapshot() -> Snapshot:
    """Tenants and keys of every kind."""
    plans = {
        1: plan("gold", QosClass.P0, None),
        2: plan("narrow", QosClass.P1, frozenset({"another-model"}), Limit(Level.TENANT, "requests_per_day", 100)),
    }
    tenants = {
        1: TenantRow("acme", 1, True, "0" * 32),
        2: TenantRow("narrow", 2, True, "1" * 32),
        3: TenantRow("gone", 1, False, "2" * 32),
    }
    keys = {
        KEY: key_row(KEY, 1),
        NARROW_KEY: key_row(NARROW_KEY, 2, 2, limits=(Limit(Level.KEY, "requests_per_day", 5),)),
        REVOKED_KEY: key_row(REVOKED_KEY, 3, revoked_at=LONG_AGO),
        EXPIRED_KEY: key_row(EXPIRED_KEY, 4, expires_at=LONG_AGO),
        DISABLED_KEY: key_row(DISABLED_KEY, 5, 3),
        ASKING_KEY: key_row(ASKING_KEY, 6, scopes=frozenset({"inference"})),
        READING_KEY: key_row(READING_KEY, 7, scopes=frozenset({"usage"})),
        HOME_KEY: key_row(HOME_KEY, 8, addresses=("127.0.0.0/8",)),
        AWAY_KEY: key_row(AWAY_KEY, 9, addresses=("203.0.113.0/24", "2001:db8::/32")),
    }
    return Snapshot(1, plans, tenants, {key_digest(key): row for key, row in keys.items()}, {})


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


@dataclass
class Face:
    """A server that runs: its base URL and its event loop."""

    url: str
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, object]) -> None:
        """Run something where the server runs."""
        asyncio.run_coroutine_threadsafe(work, self.loop).result(timeout=10)


@contextmanager
def serve() -> Iterator[Face]:
    """Run the server on a free port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(server_config(Application(), lifespan="off"))
    loops: Queue[asyncio.AbstractEventLoop] = Queue()

    async def run() -> None:
        loops.put(asyncio.get_running_loop())
        await server.serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(run()))
    thread.start()
    try:
        yield Face(f"http://127.0.0.1:{listener.getsockname()[1]}", loops.get(timeout=10))
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
