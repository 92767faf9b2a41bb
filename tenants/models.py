"""Plans, tenants, their keys, and what they used."""

import secrets

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from domain.outcome import Outcome, RollbackCause
from domain.qos import QosClass
from tenants.revision import RevisedManager, RevisedModel, SnapshotRevision

__all__ = ["ApiKey", "Plan", "SnapshotRevision", "Tenant", "UsageRecord"]

QOS_CHOICES = [
    (QosClass.P0.value, _("P0 real time")),
    (QosClass.P1.value, _("P1 core business")),
    (QosClass.P2.value, _("P2 background")),
]
OUTCOME_CHOICES = [
    (Outcome.COMPLETED.value, _("Completed")),
    (Outcome.CANCELLED.value, _("Cancelled by the client")),
    (Outcome.REJECTED.value, _("Rejected by the engine")),
    (Outcome.EXPIRED.value, _("Waited too long")),
    (Outcome.FAILED.value, _("Engine failed")),
    (Outcome.TIMEOUT.value, _("Ran too long")),
    (Outcome.GATEWAY_LOST.value, _("Gateway lost")),
]
ROLLBACK_CHOICES = [
    (RollbackCause.WORKER_LOST.value, _("Worker lost")),
    (RollbackCause.WORKER_STOPPED.value, _("Worker stopped")),
    (RollbackCause.ENGINE_DEAD.value, _("Engine dead")),
    (RollbackCause.ENGINE_ERROR.value, _("Engine error")),
]
_POSITIVE = [MinValueValidator(1)]


def make_cache_salt() -> str:
    """Draw the salt that keeps a tenant's cached prefixes apart from everybody else's: 32 hex digits."""
    return secrets.token_hex(16)


class Plan(RevisedModel):
    """What the tenants that share it may take."""

    name = models.CharField(_("name"), max_length=64, unique=True)
    weight = models.FloatField(
        _("weight"),
        default=1.0,
        validators=[MinValueValidator(0.01), MaxValueValidator(1000.0)],
        help_text=_("Share of the engines against other tenants of the same class: 2 gets twice what 1 gets."),
    )
    requests_per_minute = models.PositiveIntegerField(
        _("requests per minute"), null=True, blank=True, validators=_POSITIVE, help_text=_("Empty for no limit.")
    )
    tokens_per_minute = models.PositiveIntegerField(
        _("tokens per minute"),
        null=True,
        blank=True,
        validators=_POSITIVE,
        help_text=_("Prompt and answer together. Empty for no limit."),
    )
    max_concurrent = models.PositiveIntegerField(
        _("requests at once"), null=True, blank=True, validators=_POSITIVE, help_text=_("Empty for no limit.")
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

    objects = RevisedManager()

    class Meta:
        verbose_name = _("plan")
        verbose_name_plural = _("plans")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Tenant(RevisedModel):
    """A customer: everything is counted, limited and kept apart by tenant."""

    slug = models.SlugField(
        _("short name"),
        max_length=63,
        unique=True,
        help_text=_("Names the tenant in logs, metrics and queues. It cannot be changed later."),
    )
    name = models.CharField(_("name"), max_length=200)
    plan = models.ForeignKey(Plan, on_delete=models.PROTECT, related_name="tenants", verbose_name=_("plan"))
    active = models.BooleanField(
        _("active"), default=True, help_text=_("Off: every key of this tenant is refused within a second.")
    )
    cache_salt = models.CharField(max_length=32, unique=True, default=make_cache_salt, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    objects = RevisedManager()

    class Meta:
        verbose_name = _("tenant")
        verbose_name_plural = _("tenants")
        ordering = ["slug"]

    def __str__(self) -> str:
        return self.slug


class ApiKey(RevisedModel):
    """A key of a tenant. Its text is shown once and never stored."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="keys", verbose_name=_("tenant"))
    name = models.CharField(_("name"), max_length=100, help_text=_("Where it is used, for example: web shop."))
    prefix = models.CharField(_("prefix"), max_length=8, editable=False, db_index=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True, help_text=_("Empty for never."))
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)

    plaintext: str = ""
    """The key itself, only on the instance that was just made; not a column."""

    objects = RevisedManager()

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return f"{self.name} (sk-sluice-{self.prefix}-…)"


class UsageRecord(models.Model):
    """One settled request. Written once and never changed.

    Its links carry no constraint in the database: a request that was admitted must be counted even when its tenant
    or key was deleted before it ended.
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
        indexes = [
            models.Index(fields=["tenant", "finished_at"], name="usage_tenant_finished"),
            models.Index(fields=["key", "finished_at"], name="usage_key_finished"),
        ]

    def __str__(self) -> str:
        return self.request_id
