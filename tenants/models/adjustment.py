"""Corrections by hand: credits and extra charges."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.tenant import Tenant


class Adjustment(models.Model):
    """Adds to what a tenant has used in a month, or takes away from it. Written once; undone by an opposite one."""

    tenant = models.ForeignKey(Tenant, on_delete=models.PROTECT, related_name="adjustments", verbose_name=_("tenant"))
    month = models.DateField(_("month"), help_text=_("The first day of the month in which it counts."))
    cost_nano = models.BigIntegerField(_("cost, billionths"), default=0)
    tokens = models.BigIntegerField(_("tokens"), default=0)
    reason = models.CharField(_("reason"), max_length=300)
    made_at = models.DateTimeField(_("made"), default=timezone.now, editable=False)
    made_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("made by"),
    )
    made_by_name = models.CharField(_("made by"), max_length=150, editable=False)

    class Meta:
        verbose_name = _("adjustment")
        verbose_name_plural = _("adjustments")
        ordering = ["-made_at", "-id"]
        default_permissions = ("add", "view")
        indexes = [models.Index(fields=["tenant", "month"], name="adjustment_tenant_month")]

    def __str__(self) -> str:
        return f"{self.tenant_id} {self.month:%Y-%m}"
