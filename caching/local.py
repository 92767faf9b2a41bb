"""The first level: answers that one process keeps itself, within a number of bytes."""

from collections.abc import Callable
from dataclasses import dataclass

from caching.entry import Entry
from domain.eviction.ghost import Ghosts
from domain.eviction.named import change
from domain.eviction.policy import Policy

# What Python and the policy take for an entry beside its bytes: objects, places in dictionaries, a history of uses.
OVERHEAD_BYTES = 900


@dataclass(frozen=True, slots=True)
class _Held:
    entry: Entry
    expires_at_s: float
    size_bytes: int


class LocalCache:
    """Entries by their key, bounded by bytes; a policy says what goes when there is no room.

    Pinned keys are outside the policy's order, so they are never evicted. They take at most half of the bytes:
    what does not fit into that half is held like any other. Nothing here waits or is safe for threads.

    Attributes:
        hits: look-ups that found an entry.
        misses: look-ups that did not.
        evictions: entries that went for want of room.
        bytes: taken now, with :data:`OVERHEAD_BYTES` for each entry.
        entries: held now.
        max_bytes: bound of ``bytes``.
        ghosts: told of every look-up, once somebody puts them here.
    """

    def __init__(self, max_bytes: int, policy: Policy, clock: Callable[[], float]) -> None:
        """Make an empty one.

        Args:
            max_bytes: bound of everything held.
            policy: orders the keys; it must hold none yet.
            clock: seconds, never going back.
        """
        self.max_bytes = max_bytes
        self.hits = self.misses = self.evictions = self.bytes = 0
        self.ghosts: Ghosts | None = None
        self._policy, self._clock = policy, clock
        self._slowest_eviction_s = 0.0
        self._held: dict[bytes, _Held] = {}
        self._of_tenant: dict[int, set[bytes]] = {}
        self._to_pin: frozenset[bytes] = frozenset()
        self._pinned: set[bytes] = set()
        self._pinned_bytes = 0

    @property
    def entries(self) -> int:
        """Entries held now."""
        return len(self._held)

    def get(self, key: bytes) -> Entry | None:
        """Look an answer up; None if it is not held or too old. Counts a hit or a miss."""
        if self.ghosts is not None:
            self.ghosts.ask(key)
        held = self._held.get(key)
        if held is not None and held.expires_at_s <= self._clock():
            self._take_out(key)
            held = None
        if held is None:
            self.misses += 1
            return None
        self.hits += 1
        if key not in self._pinned:
            self._policy.hit(key)
        return held.entry

    def put(self, key: bytes, entry: Entry, ttl_s: float) -> None:
        """Hold an answer for some seconds, in place of what the key held; not if it is larger than all there is."""
        held = _Held(entry, self._clock() + ttl_s, entry.size + OVERHEAD_BYTES)
        if ttl_s <= 0 or held.size_bytes > self.max_bytes:
            self.drop(key)
        elif key in self._held:
            self._replace(key, held)
        else:
            self._add(key, held)

    def drop(self, key: bytes) -> None:
        """Hold a key no longer; unknown keys are ignored."""
        if key in self._held:
            self._take_out(key)

    def drop_tenant(self, tenant_id: int) -> int:
        """Hold nothing that a tenant's requests made; return how many entries went."""
        keys = list(self._of_tenant.get(tenant_id, ()))
        for key in keys:
            self._take_out(key)
        return len(keys)

    def pin(self, keys: frozenset[bytes]) -> None:
        """Never evict these, held now or later, and no others."""
        for key in self._pinned - keys:
            self._unpin(key)
            self._policy.admit(key)
        self._to_pin = keys
        for key in keys:
            if key in self._held and key not in self._pinned and self._pin(key):
                self._policy.remove(key)

    def change_policy(self, name: str) -> None:
        """Evict by another policy from now on; what is held stays.

        Raises:
            ValueError: no such name.
        """
        self._policy = change(self._policy, name)

    def take_slowest_eviction_s(self) -> float:
        """The longest that one eviction took since this was last asked; 0 if there was none."""
        slowest, self._slowest_eviction_s = self._slowest_eviction_s, 0.0
        return slowest

    # --- steps ------------------------------------------------------------------------------------------------------

    def _add(self, key: bytes, held: _Held) -> None:
        self._make_room(held.size_bytes)
        if self.bytes + held.size_bytes > self.max_bytes:
            return  # what is pinned leaves too little
        self._hold(key, held)
        if not self._pin(key):
            self._policy.admit(key)

    def _replace(self, key: bytes, held: _Held) -> None:
        """Take another answer under a key that keeps its place in the order."""
        was_pinned = key in self._pinned
        if was_pinned:
            self._unpin(key)
        self._forget(key)
        self._hold(key, held)
        if was_pinned and not self._pin(key):
            self._policy.admit(key)
        self._make_room(0)

    def _pin(self, key: bytes) -> bool:
        size = self._held[key].size_bytes
        if key not in self._to_pin or self._pinned_bytes + size > self.max_bytes // 2:
            return False
        self._pinned.add(key)
        self._pinned_bytes += size
        return True

    def _unpin(self, key: bytes) -> None:
        self._pinned.remove(key)
        self._pinned_bytes -= self._held[key].size_bytes

    def _make_room(self, size_bytes: int) -> None:
        while self.bytes + size_bytes > self.max_bytes and len(self._policy):
            begun_s = self._clock()
            self._forget(self._policy.evict())
            self._slowest_eviction_s = max(self._slowest_eviction_s, self._clock() - begun_s)
            self.evictions += 1

    def _take_out(self, key: bytes) -> None:
        if key in self._pinned:
            self._unpin(key)
        self._policy.remove(key)
        self._forget(key)

    def _hold(self, key: bytes, held: _Held) -> None:
        self._held[key] = held
        self.bytes += held.size_bytes
        self._of_tenant.setdefault(held.entry.tenant_id, set()).add(key)

    def _forget(self, key: bytes) -> None:
        held = self._held.pop(key)
        self.bytes -= held.size_bytes
        keys = self._of_tenant[held.entry.tenant_id]
        keys.discard(key)
        if not keys:
            del self._of_tenant[held.entry.tenant_id]
