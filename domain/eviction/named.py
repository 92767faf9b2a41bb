"""The policies by the names that settings and pages use, and the change from one to another."""

from collections.abc import Sequence

from domain.eviction.arc import Arc
from domain.eviction.lru_k import MAX_K, LruK
from domain.eviction.mq import Mq
from domain.eviction.policy import Key, Policy

NAMES = ("lru", "lru-2", "lru-3", "lru-5", "arc", "mq")


def make_policy(name: str) -> Policy:
    """Make an empty one.

    Raises:
        ValueError: no such name.
    """
    if name == "arc":
        return Arc()
    if name == "mq":
        return Mq()
    if name in NAMES:
        return LruK(k_of(name))
    raise ValueError(name)


def k_of(name: str) -> int:
    """K of "lru" (1) or "lru-K"; 0 for the others."""
    return int(name.removeprefix("lru").removeprefix("-") or 1) if name.startswith("lru") else 0


def change(policy: Policy, name: str) -> Policy:
    """The policy of that name with the keys that ``policy`` holds; ``policy`` must not be used any more.

    Among the LRU-K nothing is lost. Otherwise each key is used again as often as it is known to have been, in the old
    order: what went last before goes last again unless the new policy sees it otherwise. Keys that went are recalled.
    """
    if isinstance(policy, LruK) and k_of(name):
        policy.k = k_of(name)
        return policy
    made = make_policy(name)
    for key, uses in policy.recalled():
        made.recall(key, uses)
    _seed(made, list(policy.uses()))
    return made


def _seed(policy: Policy, known: Sequence[tuple[Key, int]]) -> None:
    for key, _uses in known:
        policy.admit(key)
    for times in range(2, MAX_K + 1):
        for key, uses in known:
            if uses >= times:
                policy.hit(key)
