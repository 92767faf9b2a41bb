"""Ids of stored prompts: when it was made, then chance; whether a text can be one is seen without asking anybody."""

import re

PREFIX = "prompt_"
RANDOM_BYTES = 10
"""80 bits: nobody meets an id by guessing."""

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
"""Crockford's base 32: no i, l, o, u, which are taken for others."""
_TIME_DIGITS, _RANDOM_DIGITS = 10, 16
_FORM = re.compile(f"{PREFIX}[0-7][{_DIGITS}]{{{_TIME_DIGITS + _RANDOM_DIGITS - 1}}}")
_VALUES = {digit: value for value, digit in enumerate(_DIGITS)}


def make_id(at_ms: int, chance: bytes) -> str:
    """Name a prompt that is made at ``at_ms`` (ms of the epoch, of the store's clock).

    Args:
        at_ms: below 2**48.
        chance: ``RANDOM_BYTES`` of it.
    """
    return PREFIX + _digits(at_ms, _TIME_DIGITS) + _digits(int.from_bytes(chance), _RANDOM_DIGITS)


def is_well_formed(text: str) -> bool:
    """Whether a text has the form of an id; there is one way to write each."""
    return _FORM.fullmatch(text) is not None


def made_at_ms(public_id: str) -> int:
    """When a prompt was made, as its well-formed id says; one that is made up says anything."""
    value = 0
    for digit in public_id[len(PREFIX) : len(PREFIX) + _TIME_DIGITS]:
        value = value * 32 + _VALUES[digit]
    return value


def _digits(value: int, count: int) -> str:
    return "".join(_DIGITS[value >> 5 * place & 31] for place in reversed(range(count)))
