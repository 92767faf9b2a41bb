"""The two tenants of the attack: one that repeats itself, and one that asks for what nobody can have asked before."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from bench.client import Call, HttpClient, Outcome, open_loop
from domain.prompt_id import RANDOM_BYTES, make_id

MODEL = "smollm2-135m-instruct"
ANSWER_TOKENS = 16

HOT_TEXTS, STORED, NAMES = 200, 20, 10
"""Texts and stored prompts of the normal tenant, and values of the variable in the stored ones."""
REPEATED, BY_PROMPT = 0.6, 0.2
"""Shares of its requests; all others are new."""

MADE_UP = 0.95
"""Share of the attacker's requests that name a stored prompt; the others are chats of its own."""
KINDS = (("old", 0.45), ("no id", 0.50), ("new", 0.05))
"""What it names: an id of a time long ago, something that is no id, an id as if it had been made this moment."""
ONCE = 0.85
"""Share of its own chats that are seen once; the others repeat one in another form."""
MAX_IN_FLIGHT = 500

STORED_MESSAGES = [
    {"role": "system", "content": "You are the lock keeper of gate number {{number}}. " * 8},
    {"role": "user", "content": "Greet {{name}}."},
]


@dataclass(frozen=True, slots=True)
class Told:
    """What the attacker's process tells at its end.

    Attributes:
        statuses: of answers to made-up ids, and of its chats, as "ids 404" and the like.
        cpu_s: that sending took.
    """

    statuses: Counter[str]
    cpu_s: float


def zipf(chance: random.Random, count: int) -> int:
    """A number below ``count``; the k-th is drawn 1/k as often as the first."""
    return min(int(count ** chance.random()), count) - 1


# --- the normal tenant ------------------------------------------------------------------------------------------------


def store_prompts(base_url: str, key: str) -> list[str]:
    """Make its stored prompts; return their ids."""
    headers = {"authorization": f"Bearer {key}"}
    with httpx.Client(base_url=base_url, headers=headers, timeout=60) as client:
        made = [client.post("/prompts", json={"messages": STORED_MESSAGES}).raise_for_status() for _ in range(STORED)]
    return [str(one.json()["id"]) for one in made]


def normal_calls(key: str, prompt_ids: Sequence[str], rate: float, seconds: float, seed: int) -> Iterator[Call]:
    """Its requests at random moments, a bounded set of which comes again and again."""
    chance, at_s = random.Random(seed), 0.0
    while (at_s := at_s + chance.expovariate(rate)) < seconds:
        draw = chance.random()
        if draw < REPEATED:
            body = _hot(zipf(chance, HOT_TEXTS))
        elif draw < REPEATED + BY_PROMPT:
            body = _by_prompt(chance.choice(prompt_ids), zipf(chance, NAMES))
        else:
            body = _chat(f"Something new, {chance.getrandbits(64)}")
        yield Call(orjson.dumps(body), key, at_s)


def first_calls(key: str, prompt_ids: Sequence[str], rate: float) -> Iterator[Call]:
    """Everything that it repeats, once."""
    bodies = [_hot(number) for number in range(HOT_TEXTS)]
    bodies += [_by_prompt(one, number) for one in prompt_ids for number in range(NAMES)]
    for at, body in enumerate(bodies):
        yield Call(orjson.dumps(body), key, at / rate)


def _hot(number: int) -> dict[str, Any]:
    return _chat(f"What of gate {number}?")


def _by_prompt(prompt_id: str, number: int) -> dict[str, Any]:
    values = {"number": "7", "name": f"guest {number}"}
    return {**_chat(""), "messages": [], "prompt": {"id": prompt_id, "variables": values}}


def _chat(text: str) -> dict[str, Any]:
    # One that ends by itself: what max_tokens cuts is never kept.
    sim = {"sim": f"tokens={ANSWER_TOKENS}"}
    messages = [{"role": "user", "content": text}]
    return {"model": MODEL, "messages": messages, "max_tokens": 2 * ANSWER_TOKENS, "temperature": 0, "metadata": sim}


async def send_all(base_url: str, calls: Iterator[Call], seconds: float, drain_s: float = 10.0) -> list[Outcome]:
    """Send calls when they are due; those that have not ended some seconds after the last are given up."""
    async with HttpClient(base_url) as client:
        return await open_loop(client.send, calls, seconds + drain_s, max_in_flight=MAX_IN_FLIGHT)


# --- the attacker -----------------------------------------------------------------------------------------------------


def attack_calls(key: str, rate: float, seconds: float, seed: int) -> Iterator[tuple[str, Call]]:
    """Its requests at an even rate, with what each is."""
    chance, told = random.Random(seed), list[str]()
    for number in range(int(rate * seconds)):
        at_s = number / rate
        if chance.random() < MADE_UP:
            kinds, weights = zip(*KINDS, strict=True)
            body = {**_chat("x"), "prompt": {"id": made_up(chance.choices(kinds, weights)[0], chance)}}
            yield "ids", Call(orjson.dumps(body), key, at_s)
        elif told and chance.random() > ONCE:
            yield "chats", Call(in_another_form(_chat(chance.choice(told)), chance), key, at_s)
        else:
            told.append(f"user:{chance.getrandbits(48)} asks")
            yield "chats", Call(orjson.dumps(_chat(told[-1])), key, at_s)


def made_up(kind: str, chance: random.Random) -> str:
    """A stored prompt that does not exist."""
    if kind == "no id":
        return chance.choice(
            (f"user:{chance.getrandbits(32)}", f"U{chance.getrandbits(32)}", f"prompt_{chance.getrandbits(80):x}")
        )
    now_ms = int(time.time() * 1000)
    at_ms = now_ms if kind == "new" else now_ms - chance.randrange(3_600_000, 10**10)
    return make_id(at_ms, chance.randbytes(RANDOM_BYTES))


def in_another_form(body: dict[str, Any], chance: random.Random) -> bytes:
    """The same request: members in another order, numbers spelt otherwise, more white space, what means nothing."""
    members = list({**body, "temperature": chance.choice((0, 0.0, -0.0)), "user": f"u{chance.random()}"}.items())
    chance.shuffle(members)
    return json.dumps(dict(members), indent=chance.choice((None, 1, 4))).encode()


def attack(base_url: str, key: str, rate: float, seconds: float, seed: int, ready: Any, begin: Any, out: Any) -> None:
    """Run it in a process of its own.

    Args:
        base_url: of the product; ``key`` the attacker's; ``rate`` requests a second, for ``seconds``; ``seed`` of them.
        ready: event that is set when everything is loaded; ``begin`` one that is waited for then.
        out: queue that gets one :class:`Told`.
    """
    kinds: list[str] = []

    def calls() -> Iterator[Call]:
        for kind, call in attack_calls(key, rate, seconds, seed):
            kinds.append(kind)
            yield call

    ready.set()
    begin.wait()
    began_s = time.process_time()
    outcomes = sorted(asyncio.run(send_all(base_url, calls(), seconds)), key=lambda one: one.started_s)
    statuses = Counter(f"{kind} {_named(one)}" for kind, one in zip(kinds, outcomes, strict=True))
    out.put(Told(statuses, time.process_time() - began_s))


def _named(outcome: Outcome) -> str:
    return str(outcome.status or outcome.error_code)
