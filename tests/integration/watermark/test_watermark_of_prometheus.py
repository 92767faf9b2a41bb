"""The watermark is what a real Prometheus says of figures that it scraped; whatever else happens is "unknown"."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from prometheus_client import CollectorRegistry, Gauge, start_http_server

from caching.watermark import PrometheusWatermark, WatermarkUnknown
from tests.stack import free_port
from tools import prometheus

NEEDS_PROMETHEUS = pytest.mark.skipif(
    prometheus.program() is None and not prometheus.is_required(), reason=prometheus.MISSING
)
WAIT_S = 60


def gateway_with(used: float, most: float) -> tuple[str, Gauge]:
    """What a gateway exports, and where; the gauge of its bytes."""
    registry = CollectorRegistry()
    held = Gauge("sluice_cache_local_bytes", "", registry=registry)
    Gauge("sluice_cache_local_max_bytes", "", registry=registry).set(most)
    held.set(used)
    port = free_port()
    start_http_server(port, addr="127.0.0.1", registry=registry)
    return f"127.0.0.1:{port}", held


async def read_until(url: str, wanted: float) -> float:
    """Ask until Prometheus says it, or for long enough."""
    watermark = PrometheusWatermark(url)
    found = -1.0
    try:
        async with asyncio.timeout(WAIT_S):
            while found != pytest.approx(wanted, abs=0.005):
                try:
                    found = await watermark.read()
                except WatermarkUnknown:
                    await asyncio.sleep(0.2)
    except TimeoutError:
        pytest.fail(f"it said {found}")
    finally:
        await watermark.stop()
    return found


@NEEDS_PROMETHEUS
async def test_it_is_the_95th_percentile_of_the_fullest_gateway() -> None:
    one, _ = gateway_with(500, 1_000)
    other, held = gateway_with(100, 1_000)
    with prometheus.server(free_port(), one, other) as url:
        await read_until(url, 0.5)
        held.set(800)
        # One sample of many is not the 95th percentile, all later ones are.
        await read_until(url, 0.8)


class Odd(BaseHTTPRequestHandler):
    """A server that answers with what the test says."""

    status, text = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.text)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def odd() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Odd) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
async def watermark(odd: str) -> AsyncIterator[PrometheusWatermark]:
    made = PrometheusWatermark(odd)
    yield made
    await made.stop()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (200, b'{"status":"success","data":{"resultType":"vector","result":[]}}'),
        (200, b'{"data":{"result":[{"value":[1,"NaN"]}]}}'),
        (200, b'{"data":{"result":[{"value":[1]}]}}'),
        (200, b"[]"),
        (200, b"not json"),
        (200, b'{"data":{"result":[{"value":[1,"0.5"]}]}' + b" " * 70_000 + b"}"),
        (503, b'{"data":{"result":[{"value":[1,"0.5"]}]}}'),
        (302, b""),
    ],
)
async def test_what_is_not_an_answer_is_unknown(
    status: int, text: bytes, watermark: PrometheusWatermark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "status", status)
    monkeypatch.setattr(Odd, "text", text)
    with pytest.raises(WatermarkUnknown):
        await watermark.read()


@pytest.mark.parametrize(("text", "share"), [(b"0.42", 0.42), (b"1.2", 1.0), (b"-1", 0.0)])
async def test_an_answer_is_a_share(
    text: bytes, share: float, watermark: PrometheusWatermark, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "text", b'{"data":{"result":[{"value":[1,"' + text + b'"]}]}}')

    assert await watermark.read() == share


async def test_no_server_is_unknown() -> None:
    watermark = PrometheusWatermark(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(WatermarkUnknown):
        await watermark.read()
    await watermark.stop()
