"""Ghost caches: what each policy would hit, learned from a sample of the keys and without holding anything.

A key is in the sample by its hash, for ever (SHARDS; Waldspurger and others, 2015), so a cache of a hundredth of the
size that sees a hundredth of the keys behaves like the whole one.
"""

from collections import deque
from collections.abc import Sequence

from domain.eviction.best import best_hits
from domain.eviction.named import NAMES, make_policy
from domain.eviction.policy import Key

# Keys that one ghost holds at most. A cache of no more keys is followed whole.
GHOST_KEYS = 2048
# What was counted so far counts half after so many sampled requests for each key of a ghost, 512 at least.
HALF_LIFE = 2
SEEN_KEYS = 65_536
RECORDED = 8_192


class Ghosts:
    """One ghost for each policy; all see the same sample.

    What is counted of the sample are misses, and stands for as many of all requests as the sample is part of: whether a
    key that is asked for very often is in the sample matters little to them.

    Attributes:
        capacity: keys of the real cache.
        asked: requests since the start.
        firsts: those of them whose key had not been asked for before, about.
        sampled: those of them whose key is in the sample.
    """

    def __init__(self, capacity: int, names: Sequence[str] = NAMES, ghost_keys: int = GHOST_KEYS) -> None:
        self.capacity = 0
        self.asked = self.firsts = self.sampled = 0
        self._old_asked = self._old_firsts = 0.0  # those that count no longer
        self._halved_at = 0
        self._ghost_keys, self._shift = ghost_keys, 0
        self._ghosts = {name: _Ghost(name) for name in names}
        self._seen: set[bytes] = set()
        self._seen_before: set[bytes] = set()
        self._recorded: deque[bytes] = deque(maxlen=RECORDED)
        self.resize(capacity)

    @property
    def share(self) -> float:
        """Share of the keys that are in the sample."""
        return 1.0 / (1 << self._shift)

    def resize(self, capacity: int) -> None:
        """Follow a cache of another number of keys, at least one."""
        self.capacity = max(1, capacity)
        shift = 0
        while self.capacity >> shift > self._ghost_keys:
            shift += 1
        # A cache about at a bound does not go to and fro: the sample grows only when it is half as large as it may be.
        if shift > self._shift or self.ghost_capacity < self._ghost_keys // 4:
            self._sample_by(shift)
        for ghost in self._ghosts.values():
            ghost.shrink(self.ghost_capacity)

    @property
    def ghost_capacity(self) -> int:
        """Keys of each ghost."""
        return max(1, self.capacity >> self._shift)

    def ask(self, key: Key) -> None:
        """A key was asked for; whether it was there does not matter."""
        self.asked += 1
        if int.from_bytes(key[:4], "little") & ((1 << self._shift) - 1):
            return
        self.sampled += 1
        stands_for = 1 << self._shift
        if not self._was_seen(key):
            self.firsts += stands_for
        self._recorded.append(key)
        capacity = self.ghost_capacity
        for ghost in self._ghosts.values():
            if not ghost.ask(key, capacity):
                ghost.misses += stands_for
        if self.sampled - self._halved_at >= max(512, HALF_LIFE * capacity):
            self._halve()

    def misses(self) -> dict[str, int]:
        """By policy, how many of all requests since the start it would not have hit, about."""
        return {name: ghost.misses for name, ghost in self._ghosts.items()}

    def rates(self) -> dict[str, float]:
        """Hit rate that each policy would have had in the window, about."""
        return {name: self._rate(ghost.misses - ghost.old_misses) for name, ghost in self._ghosts.items()}

    @property
    def ceiling(self) -> float:
        """Share of the window's requests whose key had been asked for before, about: no cache hits more."""
        return self._rate(self.firsts - self._old_firsts)

    def best_possible(self) -> float:
        """Hit rate that the best of all policies would have had on the last recorded requests, the future known."""
        recorded = list(self._recorded)
        return best_hits(recorded, self.ghost_capacity) / len(recorded) if recorded else 0.0

    def _rate(self, missed: float) -> float:
        asked = self.asked - self._old_asked
        return max(0.0, 1.0 - missed / asked) if asked else 0.0

    def _halve(self) -> None:
        self._halved_at = self.sampled
        self._old_asked = (self.asked + self._old_asked) / 2
        self._old_firsts = (self.firsts + self._old_firsts) / 2
        for ghost in self._ghosts.values():
            ghost.old_misses = (ghost.misses + ghost.old_misses) / 2

    def _was_seen(self, key: Key) -> bool:
        known = key in self._seen or key in self._seen_before
        self._seen.add(key)
        if len(self._seen) >= SEEN_KEYS:
            self._seen_before, self._seen = self._seen, set()
        return known

    def _sample_by(self, shift: int) -> None:
        if shift < self._shift:  # keys are missing that the sample has now
            for ghost in self._ghosts.values():
                ghost.shrink(0)
        self._shift = shift
        mask = (1 << shift) - 1
        for ghost in self._ghosts.values():
            ghost.keep_only(mask)


class _Ghost:
    """One policy and the keys that it would hold.

    Attributes:
        misses: since the start, each as many as it stands for.
        old_misses: those of them that count no longer.
    """

    def __init__(self, name: str) -> None:
        self.misses, self.old_misses = 0, 0.0
        self._policy = make_policy(name)
        self._held: set[Key] = set()

    def ask(self, key: Key, capacity: int) -> bool:
        """Whether the key would have been there; it is held from now on."""
        if key in self._held:
            self._policy.hit(key)
            return True
        if len(self._held) >= capacity:
            self._held.remove(self._policy.evict())
        self._policy.admit(key)
        self._held.add(key)
        return False

    def shrink(self, capacity: int) -> None:
        """Hold no more keys than this."""
        while len(self._held) > capacity:
            self._held.remove(self._policy.evict())

    def keep_only(self, mask: int) -> None:
        """Let go of keys that left the sample."""
        for key in [key for key in self._held if int.from_bytes(key[:4], "little") & mask]:
            self._policy.remove(key)
            self._held.remove(key)
