"""What the charts of a tenant's page draw, and the tables beside them."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils.translation import gettext as _

from tenants.admin.figures import money, whole
from tenants.models import NANO
from tenants.usage_report import Bucket, Used, read_usage

_HOURS, _DAYS = 24, 30
_COUNTS = ("requests", "failed", "prompt_tokens", "cached_tokens", "completion_tokens")
_SUMS = 7
"""Columns of a ``Used`` that are sums."""

_STEPS: dict[Bucket, timedelta] = {"hour": timedelta(hours=1), "day": timedelta(days=1)}


def usage_charts(tenant_id: int, now: datetime) -> list[dict[str, Any]]:
    """The last hours and the last days: what the script draws, and the same as a table."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    hours = _series(tenant_id, "hour", hour, _HOURS)
    days = _series(tenant_id, "day", hour.replace(hour=0), _DAYS)
    return [
        _range("hours", _("Last 24 hours, by hour (UTC)"), _("hour"), "%m-%d %H:00", hours),
        _range("days", _("Last 30 days, by day (UTC)"), _("day"), "%Y-%m-%d", days),
    ]


def _series(tenant_id: int, bucket: Bucket, last: datetime, count: int) -> list[Used]:
    """As many buckets, the last one beginning at ``last``; empty ones too."""
    step = _STEPS[bucket]
    starts = [last - step * back for back in reversed(range(count))]
    found = {used.starts_at: used for used in read_usage(tenant_id, starts[0], last + step, bucket, ())}
    return [found.get(start, Used(start, None, None, None, *([0] * _SUMS))) for start in starts]


def _range(name: str, title: str, step: str, form: str, used: list[Used]) -> dict[str, Any]:
    labels = [f"{one.starts_at:{form}}" for one in used]
    return {
        "name": name,
        "title": title,
        "step": step,
        "charts": [
            _chart(_("Requests"), labels, [(_("completed"), "good", [u.completed for u in used]), _others(used)]),
            _chart(
                _("Tokens"),
                labels,
                [
                    (_("prompt, computed"), "accent", [u.prompt_tokens - u.cached_tokens for u in used]),
                    (_("prompt, cached"), "quiet", [u.cached_tokens for u in used]),
                    (_("answer"), "full", [u.completion_tokens for u in used]),
                ],
            ),
            _chart(
                _("Cost, %(currency)s") % {"currency": settings.SLUICE.currency},
                labels,
                [(_("cost"), "accent", [u.cost_nano / NANO for u in used])],
            ),
        ],
        "rows": [(label, *_cells(one)) for label, one in zip(labels, used, strict=True)][::-1],
        "total": _total(used),
    }


def _others(used: Iterable[Used]) -> tuple[str, str, list[float]]:
    return _("not completed"), "bad", [one.requests - one.completed for one in used]


def _chart(title: str, labels: list[str], sets: list[tuple[str, str, list[float]]]) -> dict[str, Any]:
    said = _("%(title)s: a bar for each of %(count)d periods. The table below holds the same figures.")
    return {
        "title": title,
        "spoken": said % {"title": title, "count": len(labels)},
        "data": {
            "labels": labels,
            "sets": [{"label": label, "colour": colour, "values": values} for label, colour, values in sets],
        },
    }


def _cells(used: Used) -> tuple[str, ...]:
    return (*(whole(getattr(used, name)) for name in _COUNTS), money(used.cost_nano))


def _total(used: list[Used]) -> tuple[str, ...]:
    sums = [whole(sum(getattr(one, name) for one in used)) for name in _COUNTS]
    return (*sums, money(sum(one.cost_nano for one in used)))
