"""What the store says of the answers that it keeps."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """How full the second level is, and what has left it since the store began.

    Attributes:
        bytes: that all kept answers take, their names and indexes included.
        once_entries: answers that were not asked for again yet; ``more_entries`` those that were.
        evicted: gone to make room for others; ``expired`` gone because their time was up.
    """

    bytes: int
    once_entries: int
    more_entries: int
    evicted: int
    expired: int
