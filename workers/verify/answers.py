"""Asks one prompt of an engine, and reads what comes back for comparison."""

from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import orjson

from domain.sameness import Token
from domain.usage import Usage
from workers.engines.port import Engine, Frame, Job, RequestFailed
from workers.verify.prompts import Prompt

CANDIDATES = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """What an engine said to one prompt: tokens, or an embedding."""

    usage: Usage
    tokens: tuple[Token, ...] = ()
    embedding: tuple[float, ...] = ()


async def ask(engine: Engine, prompt: Prompt, max_tokens: int, salt: str, fault: str = "") -> Answer:
    """Ask ``prompt``, greedily and for exactly ``max_tokens`` tokens, or for its embedding.

    ``salt`` (32 hex characters) keeps this pass from what others left in the KV cache; ``fault`` is a script for the
    simulator. Raises what :meth:`workers.engines.port.Engine.run` raises.
    """
    body = _body(prompt, max_tokens, fault)
    stream = prompt.endpoint != "embeddings"
    job = Job(str(uuid4()), prompt.endpoint, orjson.dumps(body), stream, cache_salt=salt)
    async with aclosing(engine.run(job)) as came:  # type: ignore[type-var]  # engines yield generators
        frames = [frame async for frame in came]
    if stream:
        tokens = tuple(_tokens(frames))
        if not tokens:
            raise RequestFailed("the engine answered without likelihoods: there is nothing to compare")
        return Answer(frames[-1].usage, tokens)
    return Answer(frames[-1].usage, embedding=tuple(orjson.loads(frames[0].data)["data"][0]["embedding"]))


def _body(prompt: Prompt, max_tokens: int, fault: str) -> dict[str, Any]:
    if prompt.endpoint == "embeddings":
        return {"input": prompt.text}
    body: dict[str, Any] = {"temperature": 0, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}
    if fault:
        body["metadata"] = {"sim": fault}
    if prompt.endpoint == "completions":
        return {**body, "prompt": prompt.text, "logprobs": CANDIDATES}
    messages = [{"role": "user", "content": prompt.text}]
    return {**body, "messages": messages, "logprobs": True, "top_logprobs": CANDIDATES}


def _tokens(frames: list[Frame]) -> Iterator[Token]:
    ids = [token for frame in frames for token in frame.token_ids]
    found = [row for frame in frames for row in _rows(orjson.loads(frame.data))]
    for index, (text, logprob, candidates) in enumerate(found):
        yield Token(ids[index] if index < len(ids) else -1, text, logprob, candidates)


def _rows(chunk: dict[str, Any]) -> Iterator[tuple[str, float, dict[str, float]]]:
    """Text, log-likelihood and candidates of each token in a chunk of a chat or a completion."""
    for choice in chunk["choices"]:
        told = choice.get("logprobs") or {}
        for row in told.get("content") or ():
            yield row["token"], row["logprob"], {top["token"]: top["logprob"] for top in row["top_logprobs"]}
        tops = told.get("top_logprobs") or ()
        for text, logprob, top in zip(told.get("tokens") or (), told.get("token_logprobs") or (), tops, strict=False):
            yield text, logprob, top or {}
