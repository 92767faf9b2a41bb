"""Numbers, amounts of money and limits as operators read them."""

from decimal import Decimal
from typing import Any

from django.conf import settings
from django.utils.formats import number_format
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from domain.limits import KINDS, Amount
from domain.money import decimal_text
from tenants.models import NANO, Plan

_SMALL_PLACES = 6
"""Decimals of amounts below one unit, such as the cost of a single request."""


def whole(number: int) -> str:
    """A whole number with its digits in groups."""
    return number_format(number, decimal_pos=0, force_grouping=True)


def money(nano: int) -> str:
    """Billionths of the currency's unit as an amount with the currency, rounded for reading."""
    amount = Decimal(nano) / NANO
    places = 2 if abs(amount) >= 1 or not nano else _SMALL_PLACES
    if nano and not round(amount, places):
        return f"{'-' if nano < 0 else ''}<{Decimal(1).scaleb(-places):f} {settings.SLUICE.currency}"
    text = f"{round(amount, places):f}"
    kept = max(2, len(text.partition(".")[2].rstrip("0")))
    return f"{number_format(round(amount, kept), decimal_pos=kept, force_grouping=True)} {settings.SLUICE.currency}"


def exact_money(nano: int) -> str:
    """The same with every digit, for records that bills are made from."""
    return f"{decimal_text(nano)} {settings.SLUICE.currency}"


def to_nano(amount: Decimal) -> int:
    """An amount in billionths of the currency's unit."""
    return int(amount * NANO)


def limit_label(name: str) -> str:
    """How people call one of ``domain.limits.KINDS``."""
    field: Any = Plan._meta.get_field(name)
    return str(capfirst(str(field.verbose_name)))


def limit_value(name: str, value: int) -> str:
    """A cap, or what was taken of it: money for cost, else a whole number."""
    return money(value) if KINDS[name].amount is Amount.COST else whole(value)


def none_set() -> str:
    """What stands where nobody has set a limit at this level; never "unlimited", since another may hold."""
    return _("none set")
