"""An answer that goes on where an earlier attempt was cut off, token for token.

The engine computes on from the prompt and the delivered tokens. Everything else (detokenizer, stop strings, counts)
is brought to where it stood after those tokens, so that what follows cannot tell that there was a seam: a character
whose bytes lie on both sides of it comes out whole, and text that was held back since it might have become a stop
string comes out too.
"""

from collections.abc import Sequence
from typing import Protocol

from workers.engines.port import Job


class Detokenizer(Protocol):
    """What is used of vLLM's incremental detokenizer."""

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> str | None:
        """Take in new tokens."""

    def get_next_output_text(self, finished: bool, delta: bool) -> str:
        """Text that may be told since the last call."""


def delivered_ids(job: Job, vocabulary: int) -> Sequence[int]:
    """The ids that ``job`` says were delivered; empty if they cannot be those of this model's answer."""
    ids = job.delivered_ids
    fits = len(ids) == job.delivered_tokens and all(0 <= token < vocabulary for token in ids)
    return ids if fits else ()


def prime(detokenizer: Detokenizer, ids: Sequence[int]) -> str:
    """Bring a fresh ``detokenizer`` to where it stands after ``ids``; returns the text that was told by then."""
    detokenizer.update(list(ids), False)
    return detokenizer.get_next_output_text(False, True)
