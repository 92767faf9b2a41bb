"""API keys."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.choices import SCOPES
from tenants.models.limits import Limited
from tenants.models.tenant import Tenant
from tenants.revision import RevisedManager, RevisedModel


def all_scopes() -> list[str]:
    """What a key may do unless somebody narrows it."""
    return list(SCOPES)


class ApiKey(Limited, RevisedModel):
    """A key of a tenant. Its text is shown once and never stored. Its limits hold beside those of its tenant's plan."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="keys", verbose_name=_("tenant"))
    name = models.CharField(_("name"), max_length=100, help_text=_("Where it is used, for example: web shop."))
    prefix = models.CharField(_("prefix"), max_length=8, editable=False, db_index=True)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scopes = models.JSONField(_("may"), default=all_scopes, blank=True)
    allowed_addresses = models.JSONField(
        _("allowed addresses"),
        default=list,
        blank=True,
        help_text=_("One address or network a line, such as 203.0.113.0/24. Empty for every address."),
    )
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
        # Most keys never end: only the few that do are asked for by when.
        indexes = [
            models.Index(fields=["expires_at"], name="key_expires", condition=models.Q(expires_at__isnull=False))
        ]

    def __str__(self) -> str:
        return f"{self.name} (sk-sluice-{self.prefix}-…)"
