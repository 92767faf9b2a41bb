"""What a filter knows about an item."""

from enum import StrEnum


class Existence(StrEnum):
    """NO is proof; MAYBE and UNKNOWN both mean: ask whoever holds the items."""

    NO = "no"
    MAYBE = "maybe"
    UNKNOWN = "unknown"
