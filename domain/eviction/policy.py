"""What every eviction policy can do. One policy orders the keys of one cache; it never holds what they name."""

from collections.abc import Iterator
from typing import Protocol

Key = bytes


class Policy(Protocol):
    """An order of eviction. Every step is O(log n) or better; no clock, no randomness of its own.

    A cache makes room first (:meth:`evict`) and admits then. Some policies recall keys that went; how many is bounded
    by how many are held.
    """

    def hit(self, key: Key) -> None:
        """A key that is held was asked for."""

    def admit(self, key: Key) -> None:
        """A key that was not held is held from now on."""

    def evict(self) -> Key:
        """Take out the key that goes first, and return it.

        Raises:
            KeyError: none is held.
        """

    def remove(self, key: Key) -> None:
        """A key is no longer held, for another reason than room; unknown keys are ignored."""

    def uses(self) -> Iterator[tuple[Key, int]]:
        """Every key that is held and how often it was used as far as is known, about in the order in which they go."""

    def recalled(self) -> Iterator[tuple[Key, int]]:
        """Keys that went and are still known, and how often each was used, the first to be forgotten first."""

    def recall(self, key: Key, uses: int) -> None:
        """Know a key that is not held, as if it had been used so often, and went just now."""

    def __len__(self) -> int:
        """Keys that are held."""
