"""What the HTTP face costs: CPU of the server process per request, layer by layer, over loopback.

    python bench/http_front.py [--requests 2000] [--clients 8] [--rounds 3]

Behind the face stands an answer of 16 prepared chunks (or one prepared body), so only the face is measured. Layers:

    raw    uvicorn and the answer: an ASGI function of a few lines
    lean   + Django's request, URL table and the lean handler, with a bare view
    face   + authentication, permission, body check, throttle step: what is shipped
    adrf   the shipped steps on the usual asynchronous adapter for DRF and Django's own ASGI handler, for comparison

Prints JSON: CPU in microseconds per request (median over rounds, rounds interleave the layers) and requests/s.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("raw", "lean", "face", "adrf")
CHUNKS = 16
PAUSE_S = 0.001  # so that each chunk is a wake-up and a write of its own, as it is behind an engine
KEY = "sk-bench-" + "k" * 40
CHUNK = (
    b'data: {"id":"chatcmpl-00000000-0000-4000-8000-000000000000","object":"chat.completion.chunk",'
    b'"created":1700000000,'
    b'"model":"smollm2-135m-instruct","choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
)
WHOLE = (
    b'{"id":"chatcmpl-0","object":"chat.completion","choices":[{"index":0,"message":{"content":"'
    + b"x" * 400
    + b'"}}]}'
)


class Prepared:
    """An answer that is ready: 16 chunks a millisecond apart, or one body."""

    def __init__(self, stream: bool, headers: list[tuple[bytes, bytes]]) -> None:
        self._stream, self._headers = stream, headers

    async def send_to(self, receive, send) -> None:
        kind = b"text/event-stream" if self._stream else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *self._headers]})
        if self._stream:
            for _ in range(CHUNKS):
                await asyncio.sleep(PAUSE_S)
                await send({"type": "http.response.body", "body": CHUNK, "more_body": True})
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
        else:
            await send({"type": "http.response.body", "body": WHOLE})


async def raw(scope, receive, send) -> None:
    body = (await receive())["body"]
    await Prepared(b'"stream": true' in body, []).send_to(receive, send)


def lean_application():
    from django.urls import path

    from gateway.body import read_body
    from gateway.handler import DataPlane

    async def view(request):
        body = await read_body(request.receive, request.scope["headers"], 1 << 20)
        return Prepared(b'"stream": true' in body, [(b"x-request-id", request.colour.request_id.encode())])

    return DataPlane(_urlconf([path("v1/chat/completions", view)]))


def face_application():
    _prepare_runtime()
    from gateway_admin.asgi import Application

    return Application()


def adrf_application():
    _prepare_runtime()
    from adrf.views import APIView
    from django.core.handlers.asgi import ASGIHandler
    from django.http import HttpResponse, StreamingHttpResponse
    from django.test.utils import override_settings
    from django.urls import path
    from rest_framework.authentication import BaseAuthentication

    from gateway.authentication import _bearer
    from gateway.runtime import runtime
    from gateway.schema import parse_chat

    class Bearer(BaseAuthentication):
        async def authenticate(self, request):
            from datetime import UTC, datetime

            key = _bearer(request._request.scope["headers"])
            return runtime().snapshot.current.find(key, datetime.now(UTC)), None

    class Permitted:
        async def has_permission(self, request, view):
            return True

    class Throttled:
        async def allow_request(self, request, view):
            return True

    async def chunks():
        for _ in range(CHUNKS):
            await asyncio.sleep(PAUSE_S)
            yield CHUNK
        yield b"data: [DONE]\n\n"

    class View(APIView):
        authentication_classes = (Bearer,)
        permission_classes = (Permitted,)
        throttle_classes = (Throttled,)

        async def post(self, request):
            if parse_chat(request._request.body).stream:
                return StreamingHttpResponse(chunks(), content_type="text/event-stream")
            return HttpResponse(WHOLE, content_type="application/json")

    name = _urlconf([path("v1/chat/completions", View.as_view())])
    override_settings(ROOT_URLCONF=name, MIDDLEWARE=[]).enable()
    return ASGIHandler()


def _urlconf(patterns) -> str:
    import types

    module = types.ModuleType("bench_urls")
    module.urlpatterns = patterns
    sys.modules["bench_urls"] = module
    return "bench_urls"


def _prepare_runtime() -> None:
    from domain.qos import QosClass
    from gateway import pipeline
    from gateway.runtime import runtime
    from tenants.keys import key_digest
    from tenants.snapshot import KeyRow, PlanRow, Snapshot, TenantRow

    runtime().snapshot.current = Snapshot(
        1,
        {1: PlanRow("plan", QosClass.P0, 1.0, None, None, None, None)},
        {1: TenantRow("tenant", 1, True, "0" * 32)},
        {key_digest(KEY): KeyRow(1, 1, KEY[:8], None, None)},
    )

    async def submit(principal, ask, body, colour):
        return Prepared(ask.stream, [(b"x-request-id", colour.request_id.encode())])

    pipeline.submit = submit


APPLICATIONS = {"raw": lambda: raw, "lean": lean_application, "face": face_application, "adrf": adrf_application}


def serve(layer: str, listener: socket.socket, pipe: Connection) -> None:
    """Child process: serve one layer; answer each message on the pipe with the CPU seconds used so far."""
    import gc
    import threading

    import django

    sys.path.insert(0, str(ROOT))
    os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_admin.settings"
    django.setup()
    import uvicorn

    from gateway_admin.serve import server_config

    application = APPLICATIONS[layer]()
    gc.collect()
    gc.freeze()
    server = uvicorn.Server(server_config(application, lifespan="off"))

    def report() -> None:
        while pipe.recv() == "cpu":
            pipe.send(time.process_time())
        server.should_exit = True

    threading.Thread(target=report, daemon=True).start()
    server.run(sockets=[listener])


async def load(port: int, body: bytes, requests: int, clients: int) -> None:
    """Send ``requests`` requests over ``clients`` kept connections, one after the other on each."""
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {KEY}\r\n"
        "accept: application/json\r\naccept-encoding: gzip, deflate\r\nuser-agent: OpenAI/Python 3.57\r\n"
        "x-stainless-lang: python\r\nx-stainless-runtime: CPython\r\nx-stainless-retry-count: 0\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    message = head.encode() + body

    async def client(count: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(count):
            writer.write(message)
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(answer.decode())
            await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    async with asyncio.timeout(60):
        await asyncio.gather(*(client(requests // clients) for _ in range(clients)))


class Server:
    """One layer in a process of its own."""

    def __init__(self, layer: str) -> None:
        context = multiprocessing.get_context("spawn")
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = listener.getsockname()[1]
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(layer, listener, theirs), daemon=True)
        self._process.start()

    def measure(self, body: bytes, requests: int, clients: int) -> tuple[float, float]:
        """CPU microseconds per request, and requests per second."""
        before, started = self._cpu(), time.perf_counter()
        asyncio.run(load(self.port, body, requests, clients))
        took = time.perf_counter() - started
        return (self._cpu() - before) / requests * 1e6, requests / took

    def _cpu(self) -> float:
        self._pipe.send("cpu")
        return self._pipe.recv()

    def stop(self) -> None:
        self._pipe.send("stop")
        self._process.join(15)
        self._process.kill()


def bodies() -> dict[str, bytes]:
    def body(stream: bool) -> bytes:
        messages = [
            {"role": "system", "content": "You are a helpful assistant. " * 4},
            {"role": "user", "content": "What is the capital of France? " * 6},
        ]
        model = "smollm2-135m-instruct"
        return json.dumps({"model": model, "messages": messages, "max_tokens": 64, "stream": stream}).encode()

    return {"stream_16_chunks": body(True), "one_body": body(False)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layers", nargs="+", default=list(LAYERS), choices=LAYERS)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as data_dir:
        os.environ.setdefault("SLUICE_DATA_DIR", data_dir)
        servers = {layer: Server(layer) for layer in options.layers}
        try:
            print(json.dumps(compare(servers, options), indent=2))
        finally:
            for server in servers.values():
                server.stop()


def compare(servers: dict[str, Server], options: argparse.Namespace) -> dict[str, object]:
    samples: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for kind, body in bodies().items():
        for layer, server in servers.items():
            server.measure(body, 200, options.clients)  # warm
            samples.setdefault(kind, {})[layer] = []
        for _ in range(options.rounds):
            for layer, server in servers.items():
                samples[kind][layer].append(server.measure(body, options.requests, options.clients))
    return {
        "requests": options.requests,
        "clients": options.clients,
        "rounds": options.rounds,
        **{kind: {layer: _medians(rows) for layer, rows in layers.items()} for kind, layers in samples.items()},
    }


def _medians(rows: list[tuple[float, float]]) -> dict[str, int]:
    return {
        "cpu_us_per_request": round(statistics.median(cpu for cpu, _ in rows)),
        "requests_per_s": round(statistics.median(rate for _, rate in rows)),
    }


if __name__ == "__main__":
    main()
