"""Small parts of the sentences that operators read."""

from datetime import datetime

from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from gateway_admin.models import OperatorAction

_MINUTE_MS = 60_000


def duration(ms: float) -> str:
    """Milliseconds in the unit that fits."""
    if ms < 1000:
        return _("%(number)d ms") % {"number": round(ms)}
    if ms < _MINUTE_MS:
        return _("%(number)s s") % {"number": _short(ms / 1000)}
    return _("%(number)s min") % {"number": _short(ms / _MINUTE_MS)}


def _short(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def requests(count: int) -> str:
    """So many requests."""
    return ngettext("%(count)d request", "%(count)d requests", count) % {"count": count}


def ago(at: datetime) -> str:
    """How long since ``at``, in the largest unit."""
    passed = timezone.now() - at
    if passed.total_seconds() < 60:
        return _("just now")
    return _("%(time)s ago") % {"time": timesince(at, depth=1).replace("\xa0", " ")}


def by_whom(row: OperatorAction | None) -> str:
    """Who switched it and when, in brackets; empty if nobody knows."""
    if row is None:
        return ""
    return _(" (by %(name)s, %(ago)s)") % {"name": row.operator_name, "ago": ago(row.at)}
