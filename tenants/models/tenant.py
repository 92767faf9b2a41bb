"""Tenants: the customers."""

import secrets

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.plan import Plan
from tenants.revision import RevisedManager, RevisedModel


def make_cache_salt() -> str:
    """Draw the salt that keeps a tenant's cached prefixes apart from everybody else's: 32 hex digits."""
    return secrets.token_hex(16)


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
    alert_email = models.EmailField(
        _("mail for warnings"), blank=True, help_text=_("Told before a monthly budget ends.")
    )
    alert_webhook = models.URLField(
        _("webhook for warnings"),
        blank=True,
        max_length=500,
        help_text=_("Told before a monthly budget ends, by a POST of JSON."),
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
