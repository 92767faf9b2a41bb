"""A process's own copy of a filter: says what surely does not exist, without asking anybody.

Why a NO is never wrong is argued in docs/explanation/filters.md; the constants below are the argument's.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from caching.filters import bloom
from caching.filters.bloom import Bloom
from caching.filters.existence import Existence
from caching.filters.rebuild import checksum
from caching.filters.truth import FilterTruth, Generation, Poll
from domain.filter_size import MAX_FILL, false_positives_at

__all__ = ["Existence", "Replica"]

GRACE_MS = 10_000
"""An item made less than this before the last sync may not be in the copy: it is added up to ``ADD_WITHIN_MS`` after
its announcement. The rest is room for clocks of two stores that differ, and for two that both serve for a while."""

STRADDLE_MS = 600_000
"""An item comes into being at most so long after it was announced. So one that was announced this near to the beginning
of a generation may have been too late for the reading of all that exists, and too early for its deltas."""

FUTURE_MS = 86_400_000
"""No store's clock leaps so far ahead of its own last reading and of this machine's clock at once."""

STALE_S = 2.0
"""A copy that was not brought up to date for longer says nothing."""

MAX_LOG = 100_000
"""Deltas of a generation beyond which a new one is made: they are what a starting process has to read."""


class Gap(Exception):
    """The deltas do not follow on what is known."""


class Replica:
    """Follows one :class:`FilterTruth`; :meth:`sync` is to be called a few times a second.

    Attributes:
        generation: the one that is copied; None while nothing is known.
        fill: share of its bits that are set, as last counted.
        looks: answers given, by what they were.
        gaps: how often what was known could not be followed any more.

    Args:
        truth: where the truth is.
        monotonic_s: a clock that never goes back.
        wall_s: this machine's clock, in seconds of the epoch.
    """

    def __init__(
        self,
        truth: FilterTruth,
        monotonic_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._truth, self._monotonic_s, self._wall_s = truth, monotonic_s, wall_s
        self.generation: Generation | None = None
        self.fill = 0.0
        self.looks: Counter[Existence] = Counter(dict.fromkeys(Existence, 0))
        self.gaps = 0
        self._bloom: Bloom | None = None
        self._seq = 0
        self._counted_seq = 0
        self._synced_ms = 0
        self._fresh_s = float("-inf")
        self._asked, self._lost = 0, False
        self._dead: deque[str] = deque(maxlen=64)

    @property
    def false_positives(self) -> float:
        """Share of absent items that it lets through, reckoned from its fill."""
        return false_positives_at(self.fill, self.generation.size.hashes) if self.generation else 1.0

    @property
    def ready(self) -> bool:
        """Whether it can say NO at present."""
        return self._bloom is not None and self._monotonic_s() - self._fresh_s <= STALE_S

    def look(self, item: bytes, made_at_ms: int | None) -> Existence:
        """What is known of an item; takes a few microseconds.

        Args:
            item: what names it.
            made_at_ms: when it was announced, by the store's clock, as it says itself; None if it does not say.
        """
        found = self._look(item, made_at_ms)
        self.looks[found] += 1
        return found

    def wants_rebuild(self) -> str:
        """Why a new generation is due: "lost", "full", "log", "asked"; "" if none is."""
        if self._lost:
            return "lost"
        if self.generation is None:
            return ""
        if self.fill > MAX_FILL:
            return "full"
        if self._seq > MAX_LOG:
            return "log"
        return "asked" if self._asked else ""

    async def sync(self) -> None:
        """Bring the copy up to date.

        Raises:
            RedisError, OSError: the store does not answer; the copy goes on until it is stale.
        """
        try:
            while not await self._step():
                pass
        except Gap:
            self._forget()

    def forget(self) -> None:
        """Know nothing until the next sync."""
        self._bloom = self.generation = None

    # --- following --------------------------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """One look at the store; True when all that it knew is known here."""
        asked_at_s = self._monotonic_s()
        known = self.generation.name if self.generation else ""
        poll = await self._truth.poll(known, self._seq)
        self._asked = poll.asked
        if poll.generation is None or poll.generation.name in self._dead:
            raise Gap
        if poll.generation.name != known:
            await self._load(poll.generation)
            return False
        return self._follow(poll, poll.generation, asked_at_s)

    def _follow(self, poll: Poll, generation: Generation, asked_at_s: float) -> bool:
        assert self._bloom is not None
        last = self._seq + len(poll.deltas)
        if [seq for seq, _ in poll.deltas] != list(range(self._seq + 1, last + 1)):
            raise Gap
        if generation.seq < self._seq or (generation.seq > last and not poll.deltas):
            raise Gap
        self._bloom.add([digest for _, digest in poll.deltas])
        self._seq, self.generation = last, generation
        if last < generation.seq:
            return False
        self._synced_ms, self._fresh_s = poll.now_ms, asked_at_s
        # Counting takes time, so not for every delta: only when they may have set one bit in a hundred.
        if (last - self._counted_seq) * generation.size.hashes * 100 > generation.size.bits:
            self._count_fill()
        return True

    async def _load(self, generation: Generation) -> None:
        """Replace the copy by the packed filter of a generation; its deltas are still to come."""
        pieces: list[bytes] = []
        while (length := sum(map(len, pieces))) < generation.packed_bytes:
            piece = await self._truth.piece(generation.name, length)
            if not piece:
                raise Gap
            pieces.append(piece)
        made = await asyncio.to_thread(_unpack, generation, pieces)
        if self.generation:
            self._dead.append(self.generation.name)
        self._bloom, self.generation, self._seq, self._lost = made, generation, 0, False
        # What it says counts from the first sync on; until then there is no time for which it would be complete.
        self._fresh_s = float("-inf")
        self._count_fill()

    def _forget(self) -> None:
        if self.generation:
            self.gaps += 1
            # A generation that was given up never comes back: a store that brings it back is an older one.
            self._dead.append(self.generation.name)
        self.forget()
        self._lost = True

    def _count_fill(self) -> None:
        assert self._bloom is not None
        self.fill, self._counted_seq = self._bloom.fill(), self._seq

    # --- looking ----------------------------------------------------------------------------------------------------

    def _look(self, item: bytes, made_at_ms: int | None) -> Existence:
        if self._bloom is None or self._monotonic_s() - self._fresh_s > STALE_S:
            return Existence.UNKNOWN
        if self._truth.digest(item) in self._bloom:
            return Existence.MAYBE
        return Existence.NO if made_at_ms is not None and self._would_be_here(made_at_ms) else Existence.UNKNOWN

    def _would_be_here(self, made_at_ms: int) -> bool:
        """Whether an item of this time, if it existed, would be in the copy; or could not exist at all."""
        assert self.generation is not None
        if made_at_ms > self._synced_ms - GRACE_MS:
            return made_at_ms > max(self._synced_ms, self._wall_s() * 1000) + FUTURE_MS
        return abs(made_at_ms - self.generation.begun_ms) >= STRADDLE_MS


def _unpack(generation: Generation, pieces: Sequence[bytes]) -> Bloom:
    packed = b"".join(pieces)
    if checksum(packed) != generation.check:
        raise Gap
    try:
        return bloom.from_bytes(generation.library, generation.size, packed)
    except (ImportError, KeyError, ValueError) as error:
        raise Gap from error
