"""Sentences about batches: why one waits, when it ends, what is wrong with it."""

from datetime import datetime, timedelta

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from domain.bulk.status import JobStatus
from gateway_admin.wording import requests

WAITS = {
    "requests_per_minute": gettext_lazy("the tenant's requests per minute are used up"),
    "input_tokens_per_minute": gettext_lazy("the tenant's prompt tokens per minute are used up"),
    "output_tokens_per_minute": gettext_lazy("the tenant's answer tokens per minute are used up"),
    "tokens_per_minute": gettext_lazy("the tenant's tokens per minute are used up"),
    "requests_per_day": gettext_lazy("the tenant's requests of this day are used up"),
    "input_tokens_per_day": gettext_lazy("the tenant's prompt tokens of this day are used up"),
    "output_tokens_per_day": gettext_lazy("the tenant's answer tokens of this day are used up"),
    "tokens_per_month": gettext_lazy("the tenant's tokens of this month are used up"),
    "cost_per_month": gettext_lazy("the tenant's budget of this month is used up"),
    "concurrency": gettext_lazy("as many of the tenant's requests run as may at once"),
    "queue_full": gettext_lazy("the queue of class P2 is full"),
    "queue_draining": gettext_lazy("an operator drains the queue of class P2"),
    "ttl": gettext_lazy("its requests wait for an engine longer than class P2 allows"),
    "no_backend": gettext_lazy("no engine serves the model"),
    "store_unavailable": gettext_lazy("Valkey does not answer"),
    "usage_unavailable": gettext_lazy("the tenant's usage cannot be read"),
    "unknown_prompts": gettext_lazy("it names too many stored prompts that do not exist"),
    "prompts_unavailable": gettext_lazy("stored prompts cannot be looked up"),
    "files_unavailable": gettext_lazy("files cannot be reached"),
    "rejected": gettext_lazy("the engine takes no more at once"),
}
"""Reasons of the table of errors (:mod:`gateway.errors`) for which a request of a batch is sent again later."""


def waits_for(reason: str) -> str:
    """Why requests of a batch are not taken; a reason that nobody has put into words is shown as it is."""
    return str(WAITS.get(reason, reason))


def moment(at: datetime) -> str:
    """A time for people, in UTC, to the minute."""
    return f"{at:%Y-%m-%d %H:%M}Z"


def length(passed: timedelta) -> str:
    """So long, in its two largest units: seconds alone where it is short, and none of them where it is long."""
    seconds = max(0, round(passed.total_seconds()))
    minutes, hours, days = seconds // 60 % 60, seconds // 3_600 % 24, seconds // 86_400
    if seconds < 60:
        return _("%(seconds)d s") % {"seconds": seconds}
    if not (hours or days):
        return _("%(minutes)d min") % {"minutes": minutes}
    small = _("%(minutes)d min") % {"minutes": minutes} if minutes else ""
    if not days:
        return f"{_('%(hours)d h') % {'hours': hours}} {small}".strip()
    small = _("%(hours)d h") % {"hours": hours} if hours else ""
    return f"{_('%(days)d d') % {'days': days}} {small}".strip()


def relative(at: datetime, now: datetime) -> str:
    """How far away a moment is."""
    if at >= now:
        return _("in %(time)s") % {"time": length(at - now)}
    return _("%(time)s ago") % {"time": length(now - at)}


def against_expiry(ends: datetime, expires: datetime) -> str:
    """How an estimated end stands to the time at which a batch expires."""
    if ends > expires:
        return _("%(time)s after it expires") % {"time": length(ends - expires)}
    return _("%(time)s before it expires") % {"time": length(expires - ends)}


def late(ends: datetime, expires: datetime, missing: int) -> str:
    """What it means that a batch ends too late."""
    names = {"time": length(ends - expires), "requests": requests(missing)}
    return _("At this rate it ends %(time)s after it expires: about %(requests)s will have no answer.") % names


def stands(passed: timedelta, reason: str) -> str:
    """That nothing of a batch goes on, and why if that is known."""
    text = _("Not one of its requests has ended for %(time)s") % {"time": length(passed)}
    if reason:
        return _("%(stands)s: %(why)s.") % {"stands": text, "why": waits_for(reason)}
    return _("%(stands)s. Look at Queues whether P2 is paused and an engine lives.") % {"stands": text}


def unchecked(passed: timedelta) -> str:
    """That no process has begun with the file of a batch."""
    return _("Its file has waited %(time)s to be checked.") % {"time": length(passed)}


def unheld() -> str:
    """That no process works on a batch."""
    return _("No process works on it: it waits for its turn.")


def overdue() -> str:
    """That the time of a batch is over, and nothing has ended it yet."""
    return _("It has expired. What has a result is put together as soon as its last requests have ended.")


def nobody() -> str:
    """That no process works on any batch."""
    return _(
        "No process works on any batch. Start one with “manage.py up --bulk 1”, or look into the log of those that run."
    )


def last(over: str) -> str:
    """That a rate is of the last minutes."""
    return _("in the last %(time)s") % {"time": over}


def since_begin(over: str) -> str:
    """That a rate is the mean since a batch began."""
    return _("mean since it began, %(time)s ago") % {"time": over}


def no_end(status: str, *, is_standing: bool) -> str:
    """Why no end of a batch can be told."""
    if status == JobStatus.VALIDATING:
        return _("told once its file is checked")
    if status != JobStatus.IN_PROGRESS:
        return _("as soon as its results are put together")
    return _("none in sight") if is_standing else _("not known yet")
