"""One step of an engine: a pass of its model over what runs, and what was told of it."""

from collections.abc import Sequence
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Step:
    """A step, as its engine told it.

    Attributes:
        ended_us: when its tokens were known to the worker; microseconds since 1970.
        duration_us: since the step before, or since work came to an idle engine.
        running: sequences that had their place on the engine; ``waiting`` those inside of it without one.
        prompt_tokens: of the prompts that it finished computing, those found in the KV cache included.
        generated_tokens: tokens of answers that it made.
        kv_usage_permille: of the KV cache when it ended.
        preemptions: sequences that lost their blocks in it.
        model_us: time inside the model and its sampler, at most the whole; 0 where nobody measures it.
    """

    ended_us: int
    duration_us: int
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    kv_usage_permille: int = 0
    preemptions: int = 0
    model_us: int = 0

    @property
    def began_us(self) -> int:
        """When the step before had ended, or work had come."""
        return self.ended_us - self.duration_us


_FIELDS = tuple(one.name for one in fields(Step))


def flat_step(step: Step) -> list[int]:
    """A step as a list, for a message or a store."""
    return [getattr(step, name) for name in _FIELDS]


def read_step(flat: Sequence[int]) -> Step:
    """The step that :func:`flat_step` made; values that a later release added are left out.

    Raises:
        TypeError, ValueError: it is none.
    """
    return Step(**dict(zip(_FIELDS, flat, strict=False)))
