"""Moments as operators write and read them: UTC."""

from datetime import UTC, datetime, timedelta

from django import forms
from django.utils.translation import gettext as _

_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_us(microseconds: int) -> datetime:
    """The moment that many microseconds after 1970."""
    return _EPOCH + microseconds * _MICROSECOND


def text_of(microseconds: int) -> str:
    """The same for people, to the millisecond: ``2026-11-29 14:03:07.120``."""
    return from_us(microseconds).isoformat(" ", "milliseconds").removesuffix("+00:00")


def to_us(moment: datetime) -> int:
    """Microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def parse_moment(text: str) -> int:
    """Microseconds since 1970 of what an operator wrote, or 0 for nothing: ``2026-11-29 14:03``, seconds and ``Z`` as
    one likes; without a zone it is UTC, and without a day today's.

    Raises:
        django.forms.ValidationError: it is no moment.
    """
    text = text.strip()
    if not text:
        return 0
    if len(text) <= len("14:03:00Z") and ":" in text:
        text = f"{datetime.now(UTC):%Y-%m-%d} {text}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise forms.ValidationError(_("Write the time like 2026-11-29 14:03, in UTC.")) from None
    return to_us(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
