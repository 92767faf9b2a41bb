"""Prompts of very different lengths, always the same ones."""

from collections.abc import Sequence
from dataclasses import dataclass

from workers.engines.port import Endpoint

_OPENINGS = (
    "What is the capital of France?",
    "用一句话介绍一下船闸。",
    "Name three rivers in Europe.",
    "def fibonacci(n):",
    "Écris une phrase sur la mer.",
    "The keeper of the lock said",
    "🙂🚢🌊 What do you see?",
    "List the first five prime numbers.",
)
_SENTENCE = "The boat waits below the gate while the water rises slowly and the crew counts ropes and lamps"
_FILLER = _SENTENCE.split()
_FILLER_WORDS = (0, 12, 3, 150, 40, 0, 400, 8)
"""Short and long ones side by side, so that padding and chunked prefill have something to do."""

_TOKENS_PER_WORD = 2
_TEMPLATE_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question: for which endpoint, and its text."""

    endpoint: Endpoint
    text: str


def prompts(count: int, endpoints: Sequence[Endpoint], most_tokens: int) -> list[Prompt]:
    """``count`` different prompts, the endpoints in turn, none longer than ``most_tokens`` tokens."""
    most_words = max(0, most_tokens - _TEMPLATE_TOKENS) // _TOKENS_PER_WORD
    made = []
    for number in range(count):
        turn = number // len(endpoints)
        words = min(_FILLER_WORDS[turn % len(_FILLER_WORDS)], most_words)
        filler = " ".join(_FILLER[(number + index) % len(_FILLER)] for index in range(words))
        text = f"{number + 1}. {_OPENINGS[turn % len(_OPENINGS)]} {filler}".strip()
        made.append(Prompt(endpoints[number % len(endpoints)], text))
    return made
