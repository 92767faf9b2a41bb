"""Warnings that were given before a budget ended."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.tenant import Tenant


class BudgetWarning(models.Model):
    """One bound of one month that a tenant has reached: told once."""

    class Kind(models.TextChoices):
        """Which budget."""

        TOKENS = "tokens", _("tokens")
        COST = "cost", _("cost")

    class Bound(models.TextChoices):
        """How far it went."""

        SOFT = "soft", _("warning")
        HARD = "hard", _("used up")

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="warnings", verbose_name=_("tenant"))
    month = models.DateField(_("month"))
    kind = models.CharField(_("budget"), max_length=8, choices=Kind.choices)
    bound = models.CharField(_("bound"), max_length=8, choices=Bound.choices)
    spent = models.BigIntegerField(_("used then"), help_text=_("Tokens, or billionths of the currency's unit."))
    limit = models.BigIntegerField(_("bound's value"))
    at = models.DateTimeField(_("at"), default=timezone.now)
    told = models.JSONField(_("told"), default=dict, blank=True)
    """Channel ("mail", "webhook", "operators_mail", "operators_webhook") -> "" once told, else the last error."""
    attempts = models.PositiveSmallIntegerField(_("attempts"), default=0)
    done = models.BooleanField(_("all told"), default=False, db_index=True)

    class Meta:
        verbose_name = _("budget warning")
        verbose_name_plural = _("budget warnings")
        ordering = ["-at", "-id"]
        default_permissions = ("view",)
        constraints = [models.UniqueConstraint(fields=["tenant", "month", "kind", "bound"], name="budget_warning_once")]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.month:%Y-%m} {self.kind} {self.bound}"
