"""The price list."""

from decimal import Decimal
from typing import Any

from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.choices import QOS_CHOICES
from tenants.revision import RevisedManager, RevisedModel


def _price(label: Any) -> "models.DecimalField[Decimal, Decimal]":
    # Three decimals of a million tokens are a whole number of billionths a token, so cost is exact.
    return models.DecimalField(label, max_digits=12, decimal_places=3, validators=[MinValueValidator(Decimal(0))])


class Price(RevisedModel):
    """What a million tokens of a model cost from some moment on.

    Of the rows whose model, version and class match, the one that says most applies: a version before none, a class
    before none, then the latest ``valid_from``. A row that has begun to apply is history: it is replaced by a later
    one and never changed.
    """

    model = models.CharField(_("model"), max_length=200)
    model_version = models.CharField(
        _("model version"), max_length=100, blank=True, help_text=_("Or its beginning. Empty for every version.")
    )
    qos_class = models.CharField(
        _("class"), max_length=2, choices=QOS_CHOICES, blank=True, help_text=_("Empty for every class.")
    )
    input_per_million = _price(_("a million prompt tokens"))
    cached_input_per_million = _price(_("a million cached prompt tokens"))
    output_per_million = _price(_("a million answer tokens"))
    valid_from = models.DateTimeField(_("valid from"), default=timezone.now)

    objects = RevisedManager()

    class Meta:
        verbose_name = _("price")
        verbose_name_plural = _("prices")
        ordering = ["model", "model_version", "qos_class", "-valid_from"]
        constraints = [
            models.UniqueConstraint(
                fields=["model", "model_version", "qos_class", "valid_from"], name="price_once_a_moment"
            )
        ]

    def __str__(self) -> str:
        return " ".join(part for part in (self.model, self.model_version, self.qos_class) if part)

    @property
    def has_begun(self) -> bool:
        """Whether requests may have been charged by it already."""
        return self.valid_from <= timezone.now()
