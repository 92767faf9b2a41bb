"""How often a key is asked for, and whether that rises, as cells of a list."""

from datetime import timedelta

from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from tenants.models import HotKey

_STEADY = 0.1
_NEW = timedelta(minutes=2)
_MOST_PERCENT = 999


def rate_cell(row: HotKey, top_rate: float) -> SafeString:
    """Requests per minute, with a bar whose full length is ``top_rate``."""
    rate = row.rate_per_minute
    part = 100 * rate / top_rate if top_rate else 0
    text = number_format(rate, decimal_pos=0 if rate >= 10 or not rate else 1, force_grouping=True)
    return format_html(
        '<span data-bar class="sluice-rate">{}'
        '<span class="sluice-bar" aria-hidden="true"><span style="width:{}%"></span></span></span>',
        text,
        f"{part:.1f}",
    )


def trend_cell(row: HotKey) -> SafeString:
    """An arrow and how much, in words where a number would mislead."""
    way, arrow, text = _trend(row)
    return format_html(
        '<span class="sluice-trend" data-trend="{}"><span aria-hidden="true">{}</span> {}</span>', way, arrow, text
    )


def _trend(row: HotKey) -> tuple[str, str, str]:
    if not row.rate_per_minute:
        return "none", "–", _("not asked for")
    if timezone.now() - row.first_seen_at < _NEW:
        return "up", "●", _("new")
    if abs(row.trend) < _STEADY:
        return "steady", "▬", _("steady")
    percent = min(_MOST_PERCENT, round(abs(row.trend) * 100))
    return ("up", "▲", f"+{percent} %") if row.trend > 0 else ("down", "▼", f"−{percent} %")
