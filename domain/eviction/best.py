"""The best that any policy could have done, with the future known (Belady, 1966)."""

import heapq
from collections.abc import Hashable, Sequence


def best_hits(keys: Sequence[Hashable], capacity: int) -> int:
    """Count the hits of a cache of ``capacity`` keys that keeps those which are asked for again soonest.

    It may also let a new key pass by. No policy of this size hits more. O(n log n).
    """
    following = _next_uses(keys)
    held: dict[Hashable, int] = {}
    latest: list[tuple[int, int]] = []  # the heap: -(next use), place of the use before it
    hits = 0
    for place, key in enumerate(keys):
        hits += key in held
        held[key] = following[place]
        heapq.heappush(latest, (-following[place], place))
        while len(held) > capacity:
            next_use, used_at = heapq.heappop(latest)
            if held.get(keys[used_at]) == -next_use:
                del held[keys[used_at]]
    return hits


def _next_uses(keys: Sequence[Hashable]) -> list[int]:
    """For each place, where its key comes next; a place beyond the end, its own, if never."""
    seen: dict[Hashable, int] = {}
    following = [0] * len(keys)
    for place in range(len(keys) - 1, -1, -1):
        following[place] = seen.get(keys[place], len(keys) + place)
        seen[keys[place]] = place
    return following
