"""What a reconciliation finds."""

from dataclasses import dataclass, field
from enum import StrEnum


class Check(StrEnum):
    """What was compared, in words for tables."""

    SUMS = "sums against rows"
    SPENT = "spent against rows"
    HELD = "held against live requests"
    SLOTS = "slots against live requests"
    BILLED = "engines' endings against rows"
    SET_ASIDE = "ended, but no row can be made of it"


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure that is not what it must be.

    Attributes:
        check: what was compared.
        who: tenant, key or model.
        where: period, request or sum.
        what: the figure's name.
        expected: what the database or the live requests say; ``found`` what was there instead.
        repaired: it was put right, and looked at again.
    """

    check: Check
    who: str
    where: str
    what: str
    expected: int
    found: int
    repaired: bool = False


@dataclass(slots=True)
class Report:
    """All that one reconciliation found.

    Attributes:
        differences: each figure that differed.
        notes: what a person may want to know, though no figure differs.
        tenants: how many were looked at.
        waiting: settlements that had no row yet.
    """

    differences: list[Difference] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    tenants: int = 0
    waiting: int = 0

    @property
    def open(self) -> list[Difference]:
        """Those that stand."""
        return [one for one in self.differences if not one.repaired]
