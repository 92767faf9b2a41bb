"""What tenants used: one row a request, and sums by hour and day."""

from django.db import models
from django.utils.translation import gettext_lazy as _

from tenants.models.choices import CACHE_CHOICES, OUTCOME_CHOICES, QOS_CHOICES, ROLLBACK_CHOICES
from tenants.models.key import ApiKey
from tenants.models.price import Price
from tenants.models.tenant import Tenant


class UsageRecord(models.Model):
    """One settled request. Written once and never changed.

    Its links carry no constraint in the database: a request that was admitted must be counted even when its tenant
    or key was deleted before it ended. It belongs to the day and month in which it was admitted.
    """

    request_id = models.CharField(_("request id"), max_length=64, unique=True)
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="usage",
        verbose_name=_("tenant"),
    )
    key = models.ForeignKey(
        ApiKey,
        on_delete=models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="usage",
        verbose_name=_("API key"),
    )
    model = models.CharField(_("model"), max_length=200)
    model_version = models.CharField(_("model version"), max_length=100, blank=True)
    qos_class = models.CharField(_("class"), max_length=2, choices=QOS_CHOICES)
    endpoint = models.CharField(_("endpoint"), max_length=32)
    stream = models.BooleanField(_("streamed"))
    outcome = models.CharField(_("outcome"), max_length=16, choices=OUTCOME_CHOICES)
    status = models.PositiveSmallIntegerField(_("HTTP status"))
    error_code = models.CharField(_("error code"), max_length=64, blank=True)
    prompt_tokens = models.PositiveBigIntegerField(_("prompt tokens"))
    cached_tokens = models.PositiveBigIntegerField(_("of these cached"))
    completion_tokens = models.PositiveBigIntegerField(_("answer tokens"))
    cost_nano = models.BigIntegerField(_("cost, billionths"), default=0)
    price = models.ForeignKey(
        Price,
        on_delete=models.PROTECT,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=_("price"),
    )
    cache = models.CharField(_("from the cache"), max_length=9, choices=CACHE_CHOICES, blank=True)
    retry_attempt = models.PositiveSmallIntegerField(_("retries"))
    rollback_cause = models.CharField(_("cause of the last retry"), max_length=16, choices=ROLLBACK_CHOICES, blank=True)
    batch_id = models.CharField(_("batch id"), max_length=64, blank=True)
    worker_id = models.CharField(_("worker"), max_length=64, blank=True)
    gateway_id = models.CharField(_("gateway"), max_length=64, blank=True)
    admitted_at = models.DateTimeField(_("admitted"))
    claimed_at = models.DateTimeField(_("taken by a worker"), null=True)
    first_token_at = models.DateTimeField(_("first token"), null=True)
    finished_at = models.DateTimeField(_("finished"), db_index=True)

    class Meta:
        verbose_name = _("usage record")
        verbose_name_plural = _("usage")
        ordering = ["-finished_at", "-id"]
        permissions = [("export_usage", _("Can export usage"))]
        indexes = [
            models.Index(fields=["tenant", "finished_at"], name="usage_tenant_finished"),
            models.Index(fields=["key", "finished_at"], name="usage_key_finished"),
            models.Index(fields=["tenant", "admitted_at"], name="usage_tenant_admitted"),
        ]

    def __str__(self) -> str:
        return self.request_id


class UsageRollup(models.Model):
    """Sums of the usage records that were admitted in one hour or day (UTC), written in the same transaction as they.

    Its links carry no constraint, for the same reason as theirs.
    """

    class Period(models.TextChoices):
        """What is summed up."""

        HOUR = "h", _("hour")
        DAY = "d", _("day")

    period = models.CharField(_("period"), max_length=1, choices=Period.choices)
    starts_at = models.DateTimeField(_("starts"))
    tenant = models.ForeignKey(
        Tenant,
        on_delete=models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=_("tenant"),
    )
    key = models.ForeignKey(
        ApiKey,
        on_delete=models.PROTECT,
        db_constraint=False,
        db_index=False,
        related_name="+",
        verbose_name=_("API key"),
    )
    model = models.CharField(_("model"), max_length=200)
    qos_class = models.CharField(_("class"), max_length=2, choices=QOS_CHOICES)
    requests = models.PositiveBigIntegerField(_("requests"), default=0)
    completed = models.PositiveBigIntegerField(_("completed"), default=0)
    failed = models.PositiveBigIntegerField(_("failed"), default=0)
    prompt_tokens = models.PositiveBigIntegerField(_("prompt tokens"), default=0)
    cached_tokens = models.PositiveBigIntegerField(_("of these cached"), default=0)
    completion_tokens = models.PositiveBigIntegerField(_("answer tokens"), default=0)
    cost_nano = models.BigIntegerField(_("cost, billionths"), default=0)

    class Meta:
        verbose_name = _("usage by hour and day")
        verbose_name_plural = _("usage by hour and day")
        ordering = ["-starts_at", "tenant_id"]
        default_permissions = ("view",)
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "period", "starts_at", "key", "model", "qos_class"], name="usage_rolled_up_once"
            )
        ]
        indexes = [
            models.Index(fields=["period", "starts_at"], name="rollup_period_starts"),
            models.Index(fields=["key", "period", "starts_at"], name="rollup_key_period_starts"),
        ]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.starts_at:%Y-%m-%d %H:%M}"
