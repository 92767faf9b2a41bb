"""Plans: what the tenants that share one may take."""

from decimal import Decimal

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils.translation import gettext_lazy as _

from domain.qos import QosClass
from tenants.models.choices import CACHING_CHOICES, QOS_CHOICES, SHARING_CHOICES
from tenants.models.limits import Limited
from tenants.revision import RevisedManager, RevisedModel


class Plan(Limited, RevisedModel):
    """What each tenant that shares it may take. The limits are the tenant's: all its keys together."""

    name = models.CharField(_("name"), max_length=64, unique=True)
    weight = models.FloatField(
        _("weight"),
        default=1.0,
        validators=[MinValueValidator(0.01), MaxValueValidator(1000.0)],
        help_text=_("Share of the engines against other tenants of the same class: 2 gets twice what 1 gets."),
    )
    tokens_per_month_soft = models.PositiveBigIntegerField(
        _("tokens per month, warning"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_("From here on the tenant and its operators are warned; nothing is refused."),
    )
    cost_per_month_soft = models.DecimalField(
        _("cost per month, warning"),
        null=True,
        blank=True,
        max_digits=12,
        decimal_places=2,
        validators=[MinValueValidator(Decimal("0.01"))],
        help_text=_("From here on the tenant and its operators are warned; nothing is refused."),
    )
    best_class = models.CharField(
        _("best class"),
        max_length=2,
        choices=QOS_CHOICES,
        default=QosClass.P1.value,
        help_text=_("The most urgent class that a request may ask for; asking for a better one gets this one."),
    )
    allowed_models = models.JSONField(
        _("allowed models"), default=list, blank=True, help_text=_("One name a line. Empty for every model.")
    )
    cache_sharing = models.CharField(
        _("cached prompts"),
        max_length=8,
        choices=SHARING_CHOICES,
        default="private",
        help_text=_("Sharing saves work on equal prompts, but lets one tenant measure whether another has sent one."),
    )
    retention_hours = models.PositiveSmallIntegerField(
        _("answers kept, hours"),
        default=0,
        validators=[MaxValueValidator(24 * 30)],
        help_text=_(
            "0 keeps none. Else answers to requests with an Idempotency-Key are kept so long and given again "
            "to whoever repeats the request."
        ),
    )

    response_cache = models.CharField(
        _("equal requests"),
        max_length=16,
        choices=CACHING_CHOICES,
        default="deterministic",
        help_text=_(
            "Whether answers are kept and given again when an equal request comes. Kept answers are readable by "
            "whoever may read the gateway's memory, store and disk."
        ),
    )
    response_cache_ttl_s = models.PositiveIntegerField(
        _("kept for, seconds"),
        default=3600,
        validators=[MinValueValidator(1), MaxValueValidator(30 * 86_400)],
        help_text=_("An equal request that comes later is computed again."),
    )
    cached_price_percent = models.PositiveSmallIntegerField(
        _("price of a kept answer, percent"),
        default=0,
        validators=[MaxValueValidator(100)],
        help_text=_("Of what computing it would cost; the same part of its tokens counts towards the limits."),
    )
    max_stale_s = models.PositiveIntegerField(
        _("last good answer for, seconds"),
        default=86_400,
        validators=[MaxValueValidator(30 * 86_400)],
        help_text=_("So old an answer is given, marked as stale, when computing it fails. 0 for never."),
    )

    files_mib = models.PositiveIntegerField(
        _("files kept, MiB"),
        default=1024,
        validators=[MaxValueValidator(1024 * 1024)],
        help_text=_(
            "What the tenant uploads to have it worked off in batches, and what comes of it, together. 0 for no files, "
            "and so no batches."
        ),
    )

    objects = RevisedManager()

    class Meta:
        verbose_name = _("plan")
        verbose_name_plural = _("plans")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
