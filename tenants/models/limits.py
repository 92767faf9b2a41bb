"""The limits that plans and keys share."""

from collections.abc import Sequence
from decimal import Decimal

from django.core.validators import MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from domain.limits import KINDS, Level, Limit

NANO = 1_000_000_000
"""Billionths in one unit of the currency. Cost is kept in them as a whole number, so that sums are exact everywhere."""

_POSITIVE = [MinValueValidator(1)]


class Limited(models.Model):
    """What may be taken; every empty limit is none at this level."""

    max_concurrent = models.PositiveIntegerField(_("requests at once"), null=True, blank=True, validators=_POSITIVE)
    requests_per_minute = models.PositiveIntegerField(
        _("requests per minute"), null=True, blank=True, validators=_POSITIVE
    )
    tokens_per_minute = models.PositiveBigIntegerField(
        _("tokens per minute"),
        null=True,
        blank=True,
        validators=_POSITIVE,
        help_text=_("Prompt and answer together."),
    )
    input_tokens_per_minute = models.PositiveBigIntegerField(
        _("prompt tokens per minute"), null=True, blank=True, validators=_POSITIVE
    )
    output_tokens_per_minute = models.PositiveBigIntegerField(
        _("answer tokens per minute"), null=True, blank=True, validators=_POSITIVE
    )
    requests_per_day = models.PositiveBigIntegerField(
        _("requests per day"), null=True, blank=True, validators=_POSITIVE, help_text=_("Days begin at midnight UTC.")
    )
    input_tokens_per_day = models.PositiveBigIntegerField(
        _("prompt tokens per day"), null=True, blank=True, validators=_POSITIVE
    )
    output_tokens_per_day = models.PositiveBigIntegerField(
        _("answer tokens per day"), null=True, blank=True, validators=_POSITIVE
    )
    tokens_per_month = models.PositiveBigIntegerField(
        _("tokens per month"),
        null=True,
        blank=True,
        validators=_POSITIVE,
        help_text=_("Prompt and answer together. What goes beyond is refused until the next month begins in UTC."),
    )
    cost_per_month = models.DecimalField(
        _("cost per month"),
        null=True,
        blank=True,
        max_digits=12,
        decimal_places=2,
        validators=[MinValueValidator(Decimal("0.01"))],
        help_text=_("In the currency of the price list. What goes beyond is refused until the next month begins."),
    )

    class Meta:
        """No table of its own."""

        abstract = True


LIMIT_FIELDS = tuple(KINDS)
"""Names of the columns above, in the order in which limits are checked."""

SOFT_FIELDS = ("tokens_per_month", "cost_per_month")
"""Limits that have a soft bound too, in a plan's column of that name and ``_soft``."""


def limits_of(level: Level, values: Sequence[object], names: Sequence[str] = LIMIT_FIELDS) -> tuple[Limit, ...]:
    """Make the limits of one row from the values of its columns, of which each is a limit of ``names``."""
    return tuple(
        Limit(level, name, int(value * NANO) if isinstance(value, Decimal) else int(str(value)))
        for name, value in zip(names, values, strict=True)
        if value is not None
    )
