"""The engines that the contract holds for."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from engine_client import MAX_MODEL_LEN, MAX_NUM_SEQS

from domain.config import Config
from workers.engines.factory import make_engine
from workers.engines.port import Engine

ENGINES = [
    pytest.param("simulator", id="simulator"),
    pytest.param(
        "vllm",
        id="vllm",
        marks=[
            pytest.mark.vllm,
            pytest.mark.timeout(600),
            pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # vLLM and torch warn of themselves
        ],
    ),
]


def engine_config(name: str) -> Config:
    """Small enough to start fast, the simulator without pacing."""
    return Config(
        engine=name,
        sim_profile="zero",
        max_model_len=MAX_MODEL_LEN,
        max_num_seqs=MAX_NUM_SEQS,
        max_num_batched_tokens=512,
        kv_cache_gib=0.5,
    )


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=ENGINES)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Engine]:
    """A started engine; a test that stops it starts it again."""
    engine = make_engine(engine_config(request.param))
    await engine.start()
    yield engine
    await engine.stop()
