"""Whose sums, and over which day or month."""

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from domain.limits import Level


class Account(NamedTuple):
    """Whose sums, and over which day or month: the name of one hash."""

    level: Level
    owner: int
    period: str

    @property
    def name(self) -> str:
        """The hash's key after ``sl:spent:``."""
        return f"{self.level.value}:{self.owner}:{self.period}"

    @property
    def is_month(self) -> bool:
        """A month, not a day."""
        return self.period.startswith("m")

    @property
    def start(self) -> datetime:
        """Its first moment."""
        digits = self.period[1:]
        return datetime.strptime(digits if len(digits) == 8 else f"{digits}01", "%Y%m%d").replace(tzinfo=UTC)

    @property
    def end(self) -> datetime:
        """The first moment after it."""
        return _next_month(self.start) if self.is_month else self.start + timedelta(days=1)

    @classmethod
    def read(cls, name: str) -> "Account":
        """Make one of a hash's name.

        Raises:
            ValueError: it is none.
        """
        level, owner, period = name.split(":")
        return cls(Level(level), int(owner), period)


def _next_month(start: datetime) -> datetime:
    return (start + timedelta(days=32)).replace(day=1)


def accounts_at(level: Level, owner: int, moment: datetime) -> tuple[Account, Account]:
    """The day and the month that ``moment`` belongs to."""
    return Account(level, owner, f"d{moment:%Y%m%d}"), Account(level, owner, f"m{moment:%Y%m}")
