"""What every eviction policy can do. One policy orders the keys of one cache; it never holds what they name."""

from typing import Protocol

Key = bytes


class Policy(Protocol):
    """An order of eviction. Every method is O(log n) or better; no clock, no randomness of its own."""

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

    def __len__(self) -> int:
        """Keys that are held."""
