"""Greedy answers through the gateway are token for token those of vLLM's own server with the same settings.

In float32, where a batch computes what each of its sequences would alone; 25 chats and 25 completions.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import pytest
from openai import AsyncOpenAI

from tests.acceptance import vllm_server
from tests.stack import Stack

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(600)]

TOKENS = 12
AT_ONCE = 32
LOGPROB_TOLERANCE = 1e-3

_TOPICS = (
    "What is the capital of France?",
    "Name three rivers in Europe.",
    "Write a haiku about rain.",
    "What is 17 plus 25?",
    "Translate 'good morning' into Spanish.",
    "Why is the sky blue?",
    "用中文介绍一下你自己。",
    "Écris une phrase sur la mer.",
    "List the first five prime numbers.",
    "def fibonacci(n):",
    "Give me a JSON object with a name and an age.",
    "Who wrote Hamlet?",
    "🙂🚢🌊",
    "Summarise: the ship entered the lock, the gates closed, the water rose.",
    "Is water wet? Answer yes or no.",
    "SELECT name FROM",
    "Complete the sentence: the quick brown fox",
    "How many legs does a spider have?",
    "Erkläre mir eine Schleuse in einem Satz.",
    "Spell the word 'rhythm' backwards.",
    "a",
    "What comes after Monday?",
    "The meaning of life is",
    "Convert 100 degrees Celsius to Fahrenheit.",
    "Tell me a story. " * 60,
)
_SYSTEMS = (None, "You answer in one short sentence.", "You are a pirate.")


@dataclass(frozen=True, slots=True)
class Answer:
    """Tokens with the likelihood of each, and how the answer ended."""

    tokens: tuple[str, ...]
    logprobs: tuple[float, ...]
    finish_reason: str
    prompt_tokens: int


Ask = Callable[[AsyncOpenAI, str, str], Awaitable[Answer]]
Answers = dict[tuple[str, int], list[Answer]]
"""By whose they are, "ours" or "theirs", and how many were asked for at once."""


async def chat(client: AsyncOpenAI, model: str, text: str) -> Answer:
    system = _SYSTEMS[len(text) % len(_SYSTEMS)]
    messages: list[Any] = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text})
    answer = await client.chat.completions.create(
        model=model, messages=messages, temperature=0, max_tokens=TOKENS, logprobs=True
    )
    choice = answer.choices[0]
    assert choice.logprobs is not None
    assert choice.logprobs.content is not None
    assert answer.usage is not None
    tokens = choice.logprobs.content
    return Answer(
        tuple(token.token for token in tokens),
        tuple(token.logprob for token in tokens),
        choice.finish_reason,
        answer.usage.prompt_tokens,
    )


async def complete(client: AsyncOpenAI, model: str, text: str) -> Answer:
    answer = await client.completions.create(model=model, prompt=text, temperature=0, max_tokens=TOKENS, logprobs=1)
    choice = answer.choices[0]
    assert choice.logprobs is not None
    assert answer.usage is not None
    return Answer(
        tuple(choice.logprobs.tokens or ()),
        tuple(value or 0.0 for value in choice.logprobs.token_logprobs or ()),
        choice.finish_reason,
        answer.usage.prompt_tokens,
    )


QUESTIONS: list[tuple[Ask, str]] = [(ask, topic) for ask in (chat, complete) for topic in _TOPICS]


async def ask_all(client: AsyncOpenAI, model: str, at_once: int) -> list[Answer]:
    places = asyncio.Semaphore(at_once)

    async def ask(question: tuple[Ask, str]) -> Answer:
        async with places:
            return await question[0](client, model, question[1])

    return await asyncio.gather(*map(ask, QUESTIONS))


async def ask_both(real: Stack, server: str) -> Answers:
    async with real.async_client() as ours, vllm_server.client(server) as theirs:
        model = (await ours.models.list()).data[0].id
        return {
            (whose, at_once): await ask_all(client, model, at_once)
            for at_once in (1, AT_ONCE)
            for whose, client in (("ours", ours), ("theirs", theirs))
        }


@pytest.fixture(scope="module")
def answers(real: Stack, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """All answers of both, alone and at once; never both under load at a time."""
    with vllm_server.start(tmp_path_factory.mktemp("vllm")) as server:
        return asyncio.run(ask_both(real, server))


def differences(ours: list[Answer], theirs: list[Answer]) -> list[str]:
    """What differs, told question by question with the place and the likelihoods there."""
    told = []
    for (ask, text), our, their in zip(QUESTIONS, ours, theirs, strict=True):
        if (our.tokens, our.finish_reason, our.prompt_tokens) != (
            their.tokens,
            their.finish_reason,
            their.prompt_tokens,
        ):
            pairs = enumerate(zip_longest(our.tokens, their.tokens))
            place = next((index for index, (one, other) in pairs if one != other), -1)
            told.append(f"{ask.__name__} {text[:40]!r} at token {place}: {our} against {their}")
    return told


def test_fifty_answers_are_long_enough_to_tell(answers: Answers) -> None:
    alone = answers["theirs", 1]
    assert len(alone) == 50
    assert len({answer.tokens for answer in alone}) > 40
    assert sum(len(answer.tokens) for answer in alone) > 40 * TOKENS


def test_answers_alone_are_those_of_vllms_server(answers: Answers) -> None:
    assert differences(answers["ours", 1], answers["theirs", 1]) == []


def test_answers_at_once_are_those_of_vllms_server(answers: Answers) -> None:
    assert differences(answers["ours", AT_ONCE], answers["theirs", AT_ONCE]) == []


def test_answers_at_once_are_those_of_vllms_server_alone(answers: Answers) -> None:
    together, alone = answers["ours", AT_ONCE], answers["theirs", 1]
    assert differences(together, alone) == []
    assert max(map(largest_gap, together, alone)) < LOGPROB_TOLERANCE


def largest_gap(one: Answer, other: Answer) -> float:
    return max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True))
