"""What the look-up of prompts needs of the filters."""

from typing import Protocol

from caching.filters import Existence


class KnownIds(Protocol):
    """Ids that were ever given out, see :mod:`gateway.filters`."""

    async def announce(self) -> int:
        """The store's time (ms), from which on an id that is being made is not called absent."""

    async def add(self, public_id: str) -> None:
        """Add an id, before its row is written."""

    def look(self, public_id: str) -> Existence:
        """Whether the id can exist, without asking anybody."""

    async def ask(self, public_id: str) -> Existence:
        """The same from the store, for an id that is too young to be known here."""

    def was_absent(self, public_id: str) -> None:
        """The database did not have an id that was not called absent."""

    async def ask_rebuild(self) -> None:
        """Let what was deleted leave the filter too, in time."""
