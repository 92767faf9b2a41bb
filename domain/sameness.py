"""Whether an engine says the same to a prompt alone and in a batch (requirement W5)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from math import fsum, isfinite, sqrt

TOLERANCE_NATS: dict[str, float] = {"float32": 1e-3, "float16": 0.02, "bfloat16": 0.2}
"""How far the log-likelihood of one token may move with the company it is computed in, by dtype.

Measured on CPUs: 1.4e-5 in float32, 0.10 to 0.14 in bfloat16. Each bound is a little above, float32's well below what a
wrong mask costs.
"""

COSINE_TOLERANCE = 1e-5
"""How far the cosine between two embeddings of one text may be below 1 in float32."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token of an answer.

    Attributes:
        token_id: its number; -1 where the engine has none.
        text: as the engine spells it.
        logprob: natural logarithm of its likelihood.
        candidates: the likeliest tokens at this place with theirs.
    """

    token_id: int
    text: str
    logprob: float
    candidates: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which two answers part.

    Attributes:
        place: index of the token.
        alone: text of the token in the answer alone; None where it has ended.
        batched: likewise in the batch.
        gap_nats: how much likelier the one was than the other, when computed alone; None where that is not known.
        is_near_tie: a gap so small that rounding may turn it.
    """

    place: int
    alone: str | None
    batched: str | None
    gap_nats: float | None
    is_near_tie: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two answers to one prompt.

    Attributes:
        tokens: tokens of the answer alone.
        same_tokens: tokens before the first difference.
        difference: where they part; None for equal answers.
        logprob_gap: the largest difference of log-likelihood over the tokens that are the same; infinite for a
            likelihood that is not a number.
    """

    tokens: int
    same_tokens: int
    difference: Difference | None
    logprob_gap: float


def compare(alone: Sequence[Token], batched: Sequence[Token], tolerance_nats: float) -> Comparison:
    """Compare token for token."""
    same = 0
    gap = 0.0
    for one, other in zip_longest(alone, batched):
        if one is None or other is None or (one.token_id, one.text) != (other.token_id, other.text):
            return Comparison(len(alone), same, _difference(same, one, other, tolerance_nats), gap)
        moved = abs(one.logprob - other.logprob)
        gap = max(gap, moved if isfinite(moved) else float("inf"))
        same += 1
    return Comparison(len(alone), same, None, gap)


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    """Cosine of the angle between two vectors, -1 to 1; not a number for a vector of length 0.

    Raises:
        ValueError: they have different numbers of components.
    """
    dot = fsum(a * b for a, b in zip(one, other, strict=True))
    length = sqrt(fsum(a * a for a in one) * fsum(b * b for b in other))
    return dot / length if length else float("nan")


def _difference(place: int, one: Token | None, other: Token | None, tolerance_nats: float) -> Difference:
    gap = None
    if one is not None and other is not None and other.text in one.candidates:
        gap = abs(one.logprob - one.candidates[other.text])
    # Each of the two may have moved by the tolerance.
    is_near_tie = gap is not None and gap <= 2 * tolerance_nats
    texts = (one.text if one else None, other.text if other else None)
    return Difference(place, *texts, gap, is_near_tie)
