"""Loads the Lua scripts beside this file; each is the rules' constants, the shared texts and its own."""

from functools import cache
from pathlib import Path

from domain import fair_order, prefix

_LUA = Path(__file__).parent / "lua"

EXPECTED_TOKENS = 128
"""Output tokens of a sequence that are reckoned with until some have ended."""

SUSPECT_TOKENS = 16
"""Who had made more than this when its engine died first is no suspect."""

RESUME_MS = 60_000
"""An item that lost its engine may wait so long at least: another engine may have to start first."""

NAMES = (
    "admit",
    "claim",
    "progress",
    "finish",
    "lose",
    "acquit",
    "requeue",
    "cancel",
    "settle_forgotten",
    "end_following",
    "unfollow",
    "store_answer",
    "drop_answer",
    "erase_answers",
    "worker_beat",
    "gateway_beat",
    "seed",
    "sweep",
)

_SHARED = ("quota", "idempotency", "lib", "flights", "endings")

_OF_ANSWERS = ("admit", "sweep", "store_answer", "drop_answer", "erase_answers")
"""Scripts that touch kept answers, and so begin with ``answers.lua`` too."""

_CONSTANTS = {
    "COST_PROMPT": fair_order.UNCACHED_PROMPT_COST,
    "COST_CACHED": fair_order.CACHED_PROMPT_COST,
    "COST_OUTPUT": fair_order.OUTPUT_COST,
    "AGED_EVERY": fair_order.AGED_EVERY,
    "PREFIX_FINE": prefix.FINE_EDGES,
    "PREFIX_TOKENS": prefix.FINE_BYTES // prefix.BYTES_PER_TOKEN,
    "PREFIX_COARSE_TOKENS": prefix.COARSE_BYTES // prefix.BYTES_PER_TOKEN,
    "EXPECTED_TOKENS": EXPECTED_TOKENS,
    "SUSPECT_TOKENS": SUSPECT_TOKENS,
    "RESUME_MS": RESUME_MS,
}


@cache
def source(name: str) -> str:
    """The whole text of one script.

    Raises:
        FileNotFoundError: there is no script of that name.
    """
    return shared() + (_text("answers") if name in _OF_ANSWERS else "") + _text(name)


@cache
def shared() -> str:
    """What all scripts begin with."""
    constants = "".join(f"local {constant} = {value}\n" for constant, value in _CONSTANTS.items())
    return constants + "".join(_text(part) for part in _SHARED)


def _text(name: str) -> str:
    return (_LUA / f"{name}.lua").read_text() + "\n"
