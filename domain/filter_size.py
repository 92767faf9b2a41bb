"""How large a Bloom filter must be, and how often it errs.

Formulas: B. H. Bloom, "Space/time trade-offs in hash coding with allowable errors", CACM 13 (1970), in the form of
A. Broder and M. Mitzenmacher, "Network applications of Bloom filters: a survey", Internet Mathematics 1 (2004), part 2.
"""

import math
from dataclasses import dataclass

MAX_HASHES = 32
MAX_FILL = 0.5
"""A filter that is fuller gets a larger one: at its best size it is half full when all its keys are in it."""


@dataclass(frozen=True, slots=True)
class FilterSize:
    """``bits`` of a filter, and ``hashes``: how many of them each key sets."""

    bits: int
    hashes: int

    @property
    def size_bytes(self) -> int:
        """Bytes that the bits take."""
        return (self.bits + 7) // 8


PAPER = FilterSize(bits=2**23, hashes=3)
"""1 MB, k = 3: light enough for a client; 2.7 % false positives with 2**20 keys."""


def size_for(keys: int, false_positives: float) -> FilterSize:
    """The smallest filter that lets at most this share of absent keys through when all keys are in it.

    m = -n ln p / (ln 2)^2 and k = (m / n) ln 2 = -log2 p, rounded to a whole number; with k rounded, m is what gives p
    again: p = (1 - e^(-kn/m))^k, so m = -kn / ln(1 - p^(1/k)).

    Args:
        keys: at least 1.
        false_positives: above 0, below 1.
    """
    hashes = min(MAX_HASHES, max(1, round(-math.log2(false_positives))))
    bits = -hashes * keys / math.log1p(-(false_positives ** (1 / hashes)))
    return FilterSize(math.ceil(bits), hashes)


def false_positives_with(size: FilterSize, keys: int) -> float:
    """Share of absent keys let through with so many keys in it: (1 - e^(-kn/m))^k."""
    return float((-math.expm1(-size.hashes * keys / size.bits)) ** size.hashes)


def false_positives_at(fill: float, hashes: int) -> float:
    """Share of absent keys let through when this share of all bits is set: all ``hashes`` bits of a key are, fill^k."""
    return float(fill**hashes)


def grown(planned_keys: int, keys: int) -> int:
    """For how many keys the next filter is made: as planned, doubled until it is at most 4/5 full of ``keys``."""
    while keys > planned_keys * 4 / 5:
        planned_keys *= 2
    return planned_keys
