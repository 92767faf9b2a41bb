"""What it costs to count a prompt before it is admitted, and how far the count is from the engine's own.

Times are CPU of the thread that counts, for SmolLM2's tokenizer and chat template: of a chat whose every word is new,
and of one whose earlier turns were counted before. Texts are this project's own pages, English and
Chinese. Errors are those against the prompt tokens that the real engine reports for 200 chats of every kind.

``make bench ARGS="token_count [--chats 200]"``
"""

import argparse
import asyncio
import json
import random
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median, quantiles
from typing import Any
from uuid import uuid4

from django.conf import settings

from bench.report import write
from gateway.schema import parse_chat
from gateway.tokens.estimate import estimate
from gateway.tokens.reading import Request, begin
from workers.engines.factory import make_engine
from workers.engines.models import smollm2
from workers.engines.models.prepare import prepare
from workers.engines.port import Job
from workers.engines.vllm_tokenization import read_rule
from workers.tokenization.counter import Counter, make_counter

ROOT = Path(__file__).resolve().parent.parent
SIZES = (100, 1_000, 8_000, 100_000)
SALT = b"0" * 32
RULES = "You are the assistant of a lock keeper. Answer in one sentence, and say when you do not know."
TOOL = {
    "type": "function",
    "function": {
        "name": "get_level",
        "description": "The water's level in metres",
        "parameters": {"type": "object", "properties": {"gate": {"type": "string", "enum": ["upper", "lower"]}}},
    },
}
SYSTEM = {"role": "system", "content": RULES}
SYMBOLS = "🌊é\u200d\t  \n\u0301ßЖ가<|im_end|>"
KINDS = ("plain", "system", "turns", "Chinese", "symbols", "code", "tools", "called", "long")


def english() -> str:
    """The pages of the documentation."""
    return "\n".join(path.read_text() for path in sorted((ROOT / "docs").rglob("*.md")))


def chinese() -> str:
    """The Chinese words of the pages for operators."""
    source = (ROOT / "gateway_admin/locale/zh_Hans/LC_MESSAGES/django.po").read_text()
    return "".join(re.findall(r'^(?:msgstr )?"(.*)"$', source, re.MULTILINE))


def body(messages: list[dict[str, Any]], **fields: Any) -> bytes:
    """A chat's body."""
    return json.dumps({"model": "m", "messages": messages, **fields}, ensure_ascii=False).encode()


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str | None) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


# --- cost -------------------------------------------------------------------------------------------------------------


def read(given: bytes) -> Request:
    """A body as the gateway has checked it."""
    request = parse_chat(given).request
    assert request is not None
    return request


def count(counter: Counter, request: Request, salt: bytes = SALT) -> int:
    """The whole way from a checked request to its tokens."""
    counts = begin(counter, request, salt)
    for one in counts:
        while one.open:
            counter.encode_piece(one)
    return sum(one.tokens for one in counts)


def cost_us(counter: Counter, requests: Sequence[Request], salts: Sequence[bytes]) -> float:
    """Median CPU of counting one of them, in microseconds."""
    taken = []
    for request, salt in zip(requests, salts, strict=True):
        begun = time.thread_time_ns()
        count(counter, request, salt)
        taken.append((time.thread_time_ns() - begun) / 1000)
    return median(taken)


def measure_cost(counter: Counter, rounds: int) -> list[dict[str, Any]]:
    """A row for each language and size."""
    rows = []
    for language, source in (("English", english()), ("Chinese", chinese())):
        source = source * (1 + 2 * SIZES[-1] // len(source.encode()))
        for size in SIZES:
            text = source.encode()[:size].decode(errors="ignore")
            first = read(body([user(text)]))
            further = [
                read(body([user(text), said("Yes, it is."), user(f"And what of gate {number}?")]))
                for number in range(rounds)
            ]
            rows.append(
                {
                    "language": language,
                    "bytes": size,
                    "tokens": count(counter, first),
                    "all new, us": cost_us(counter, [first] * rounds, [b"%032d" % number for number in range(rounds)]),
                    "a further turn, us": cost_us(counter, further, [SALT] * rounds),
                }
            )
    return rows


# --- error ------------------------------------------------------------------------------------------------------------


class Chats:
    """Makes chats of all kinds, the same ones each time."""

    def __init__(self) -> None:
        self._chance = random.Random(4)
        self._prose, self._chinese = english(), chinese()
        self._makers: dict[str, Callable[[], bytes]] = {
            "plain": lambda: body([self._question()]),
            "system": lambda: body([SYSTEM, self._question()]),
            "turns": self._turns,
            "Chinese": self._in_chinese,
            "symbols": lambda: body([user("".join(self._chance.choices(SYMBOLS, k=self._chance.randrange(1, 60))))]),
            "code": lambda: body([user(self._some(Path(__file__).read_text(), 400))]),
            "tools": lambda: body([self._question()], tools=[TOOL]),
            "called": self._called,
            "long": lambda: body([user(self._some(self._prose, 2000))]),
        }

    def make(self, number: int) -> list[tuple[str, bytes]]:
        """So many chats with their kinds, which take turns."""
        return [(kind, self._makers[kind]()) for _, kind in zip(range(number), KINDS * number, strict=False)]

    def _some(self, source: str, most: int) -> str:
        start = self._chance.randrange(len(source) - most)
        return source[start : start + self._chance.randrange(1, most)]

    def _question(self) -> dict[str, Any]:
        return user(self._some(self._prose, 300))

    def _turns(self) -> bytes:
        answer = said(self._some(self._prose, 200))
        return body([SYSTEM, self._question(), answer, user(self._some(self._prose, 100)), answer, user("Why?")])

    def _in_chinese(self) -> bytes:
        return body([user(self._some(self._chinese, 150)), said(self._some(self._chinese, 80)), user("那呢？")])

    def _called(self) -> bytes:
        call = {"id": "1", "type": "function", "function": {"name": "get_level", "arguments": '{"gate":"lower"}'}}
        told = {"role": "tool", "tool_call_id": "1", "content": self._some(self._prose, 60)}
        return body([SYSTEM, self._question(), {**said(None), "tool_calls": [call]}, told], tools=[TOOL])


async def engine_counts(bodies: list[bytes]) -> tuple[Counter, list[int]]:
    """The counter of the real engine's rule, and what the engine itself reports for each body."""
    engine = make_engine(replace(settings.SLUICE, engine="vllm", max_num_seqs=16, kv_cache_gib=0.5))
    info = await engine.start()
    assert info.tokenization is not None
    gate = asyncio.Semaphore(16)

    async def one(given: bytes) -> int:
        short = json.dumps({**json.loads(given), "max_tokens": 1}).encode()
        async with gate:
            frames = [frame async for frame in engine.run(Job(str(uuid4()), "chat", short, stream=False))]
        return frames[-1].usage.prompt_tokens

    try:
        return make_counter(info.tokenization), list(await asyncio.gather(*map(one, bodies)))
    finally:
        await engine.stop()


def summarise(kinds: list[str], differences: list[int], guesses: list[int], true: list[int]) -> list[dict[str, Any]]:
    """A row for each kind of chat: how far the count is from the engine's, and how far the estimate was."""
    rows = []
    for kind in KINDS:
        which = [index for index, name in enumerate(kinds) if name == kind]
        shares = [guesses[index] / true[index] for index in which]
        low, *_, high = quantiles(shares, n=10) if len(shares) > 1 else (shares[0], shares[0])
        counted = [differences[index] for index in which]
        rows.append(
            {
                "chats": kind,
                "number": len(which),
                "tokens, median": median(true[index] for index in which),
                "count - engine, least": min(counted),
                "most": max(counted),
                "estimate / engine, 10 %": low,
                "90 %": high,
            }
        )
    return rows


def measure_errors(number: int, command: str) -> None:
    """Ask the real engine, and write how far the counts are from its own."""
    asked = Chats().make(number)
    counter, true = asyncio.run(engine_counts([given for _, given in asked]))
    differences = [count(counter, read(given)) - tokens for (_, given), tokens in zip(asked, true, strict=True)]
    guesses = [estimate(parse_chat(given).prompt_bytes) for _, given in asked]
    kinds = [kind for kind, _ in asked]
    runs = [
        {"kind": kind, "off": off, "estimate": guess, "engine": tokens}
        for kind, off, guess, tokens in zip(kinds, differences, guesses, true, strict=True)
    ]
    write("token_count_errors", command, summarise(kinds, differences, guesses, true), runs)


def prepared_counter() -> Counter:
    """The counter of the prepared model."""
    from transformers import AutoTokenizer

    directory = prepare(replace(settings.SLUICE, model=smollm2.MODEL_ID), print)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    rule = read_rule(tokenizer, tokenizer.chat_template, tokenizer.chat_template, "string")
    assert rule is not None
    return make_counter(rule)


def main(arguments: list[str]) -> None:
    """Measure and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chats", type=int, default=200, help="0 leaves the engine out")
    parser.add_argument("--rounds", type=int, default=50)
    options = parser.parse_args(arguments)
    command = f'make bench ARGS="{" ".join(["token_count", *arguments])}"'
    write("token_count", command, measure_cost(prepared_counter(), options.rounds), [])
    if options.chats:
        measure_errors(options.chats, command)
