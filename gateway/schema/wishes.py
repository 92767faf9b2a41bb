"""What a request says of kept answers, beside its body."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the headers of a request say of kept answers.

    Attributes:
        reads: a kept answer will do, or one that is being computed for an equal request.
        stores: its own answer may be kept, and given to equal requests that come while it is computed.
        only_kept: it wants a kept answer or none.
        max_age_s: oldest answer that will do; None for any that the plan allows.
        sampled_too: also where a repetition would be answered otherwise, if the plan keeps answers at all.
    """

    reads: bool = True
    stores: bool = True
    only_kept: bool = False
    max_age_s: int | None = None
    sampled_too: bool = False


NO_WISHES = Wishes()
