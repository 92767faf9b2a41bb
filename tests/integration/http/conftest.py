"""One server for all tests of the HTTP face."""

from collections.abc import Iterator

import http_face
import httpx
import pytest

from gateway import pipeline
from gateway.runtime import runtime


@pytest.fixture(scope="session")
def base_url() -> Iterator[str]:
    with http_face.serve() as url:
        yield url


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
