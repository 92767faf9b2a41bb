"""Which limit really holds for a key: its own or its tenant's, whichever is less."""

from collections.abc import Iterator
from typing import NamedTuple

from django.utils.translation import gettext as _

from domain.limits import Level
from tenants.admin.figures import limit_label, limit_value, none_set
from tenants.models import LIMIT_FIELDS, ApiKey, Plan
from tenants.models.limits import Limited, limits_of

_WITHIN = {"input_tokens_per_minute": "tokens_per_minute", "output_tokens_per_minute": "tokens_per_minute"}
"""A limit of the second name bounds the first one too."""


class Holding(NamedTuple):
    """The limit of one name that holds.

    Attributes:
        name: one of ``domain.limits.KINDS``.
        cap: at most so much; None if neither level nor a wider limit bounds it.
        own: it is the key's own.
        wider: the name of the limit that bounds it in place of one of its own name; "" for none.
    """

    name: str
    cap: int | None
    own: bool
    wider: str = ""

    @property
    def text(self) -> str:
        """In words: the number, and whose it is unless it is the key's own."""
        if self.cap is None:
            return none_set()
        value = {"limit": limit_value(self.name, self.cap)}
        if self.wider:
            return _("%(limit)s by the limit of %(name)s") % {**value, "name": limit_label(self.wider).lower()}
        return value["limit"] if self.own else _("%(limit)s by the tenant's plan") % value


def caps_of(row: Limited, level: Level) -> dict[str, int]:
    """The limits of a plan or a key that are set, by name; cost in billionths of the currency's unit."""
    return {limit.name: limit.cap for limit in limits_of(level, [getattr(row, name) for name in LIMIT_FIELDS])}


def holdings(key: Limited, plan: Plan) -> Iterator[Holding]:
    """What holds for a key of a tenant on ``plan``, for every name."""
    own, shared = caps_of(key, Level.KEY), caps_of(plan, Level.TENANT)
    for name in LIMIT_FIELDS:
        found = _least(name, own, shared)
        wider = _WITHIN.get(name)
        within = _least(wider, own, shared) if wider else None
        if wider and within and within.cap is not None and (found.cap is None or within.cap < found.cap):
            found = Holding(name, within.cap, within.own, wider)
        yield found


def _least(name: str, own: dict[str, int], shared: dict[str, int]) -> Holding:
    mine, its = own.get(name), shared.get(name)
    if mine is not None and (its is None or mine < its):
        return Holding(name, mine, own=True)
    return Holding(name, its, own=False)


def own_limits_line(key: ApiKey) -> str:
    """The limits of the key's own that hold, in one line; else that its tenant's plan holds."""
    own = [held for held in holdings(key, key.tenant.plan) if held.own and not held.wider]
    if not own:
        return _("those of the tenant's plan")
    return "; ".join(f"{limit_label(held.name)}: {held.text}" for held in own)
