"""What does not fit together in a plan: mistakes to refuse, and oddities to point out."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.utils.translation import gettext as _

from tenants.admin.figures import limit_label, whole

_MINUTES_A_DAY = 24 * 60
_DAY_OF = {
    "requests_per_minute": "requests_per_day",
    "input_tokens_per_minute": "input_tokens_per_day",
    "output_tokens_per_minute": "output_tokens_per_day",
}
_SOFT_OF = {"tokens_per_month": "tokens_per_month_soft", "cost_per_month": "cost_per_month_soft"}


def wrong_bounds(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Warning lines that lie above their budgets: name of the field, and what is wrong with it."""
    for hard, soft in _SOFT_OF.items():
        if values.get(hard) and values.get(soft) and values[soft] > values[hard]:
            yield soft, _("The warning line must not be above the budget, or nobody is warned before it ends.")


def oddities(values: Mapping[str, Any]) -> Iterator[str]:
    """What can hardly be meant, though it can be done."""
    for minute, day in _DAY_OF.items():
        yield from _minute_and_day(minute, values.get(minute), day, values.get(day))
    for name in ("input_tokens_per_minute", "output_tokens_per_minute"):
        yield from _never_reached(name, values.get(name), values.get("tokens_per_minute"))
    for hard, soft in _SOFT_OF.items():
        if values.get(hard) and not values.get(soft):
            yield _("“%(name)s” has no warning line: requests are refused at the end of the budget without notice.") % {
                "name": limit_label(hard)
            }


def _minute_and_day(minute: str, per_minute: int | None, day: str, per_day: int | None) -> Iterator[str]:
    if not per_minute or not per_day:
        return
    names = {"minute": limit_label(minute), "day": limit_label(day)}
    if per_day <= per_minute:
        yield _("“%(day)s” can be used up within one minute: it is not above “%(minute)s”.") % names
    elif per_day > per_minute * _MINUTES_A_DAY:
        told = _("“%(day)s” is never reached: “%(minute)s” allows %(most)s a day.")
        yield told % {**names, "most": whole(per_minute * _MINUTES_A_DAY)}


def _never_reached(name: str, part: int | None, both: int | None) -> Iterator[str]:
    if part and both and part > both:
        told = _("“%(name)s” is never reached: “%(both)s” is less.")
        yield told % {"name": limit_label(name), "both": limit_label("tokens_per_minute")}
