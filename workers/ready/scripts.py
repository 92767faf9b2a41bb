"""Loads the Lua scripts beside this file; each is ``lib.lua`` followed by its own text."""

from functools import cache
from pathlib import Path

_LUA = Path(__file__).parent / "lua"

NAMES = (
    "admit",
    "claim",
    "finish",
    "lose",
    "requeue",
    "cancel",
    "settle_forgotten",
    "worker_beat",
    "gateway_beat",
    "sweep",
)


@cache
def source(name: str) -> str:
    """The whole text of one script.

    Raises:
        FileNotFoundError: there is no script of that name.
    """
    return (_LUA / "lib.lua").read_text() + "\n" + (_LUA / f"{name}.lua").read_text()
