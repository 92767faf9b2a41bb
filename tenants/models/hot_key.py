"""The whitelist: keys that are asked for most, found by counting or named by operators."""

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.tenant import Tenant


class HotKey(models.Model):
    """One key. Its text is a digest, or the id of a stored prompt; never what a tenant asked."""

    class Kind(models.TextChoices):
        """What it names."""

        ANSWER = "answer", _("answer")
        PROMPT = "prompt", _("stored prompt")

    class State(models.TextChoices):
        """Who put it there, and what for."""

        AUTO = "auto", _("found by counting")
        PINNED = "pinned", _("pinned")
        BANNED = "banned", _("banned")

    kind = models.CharField(_("kind"), max_length=8, choices=Kind.choices)
    key = models.CharField(_("key"), max_length=64)
    tenant = models.ForeignKey(
        Tenant, on_delete=models.CASCADE, null=True, blank=True, related_name="+", verbose_name=_("tenant")
    )
    model = models.CharField(_("model"), max_length=200, blank=True)
    state = models.CharField(_("state"), max_length=8, choices=State.choices, default=State.AUTO)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    note = models.CharField(_("note"), max_length=300, blank=True)
    rate_per_minute = models.FloatField(_("requests per minute"), default=0.0)
    trend = models.FloatField(_("trend"), default=0.0)
    """Rate of the latest window over the mean of those before, minus 1; 0 while there is none to compare with."""
    first_seen_at = models.DateTimeField(_("first seen"), default=timezone.now, editable=False)
    last_seen_at = models.DateTimeField(_("last seen"), default=timezone.now, editable=False)
    changed_at = models.DateTimeField(_("changed"), null=True, editable=False)
    changed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.SET_NULL,
        null=True,
        editable=False,
        related_name="+",
        verbose_name=_("changed by"),
    )
    changed_by_name = models.CharField(_("changed by"), max_length=150, blank=True, editable=False)

    class Meta:
        verbose_name = _("hot key")
        verbose_name_plural = _("hot keys")
        ordering = ["-rate_per_minute", "id"]
        constraints = [models.UniqueConstraint(fields=["kind", "key"], name="hot_key_once")]
        indexes = [models.Index(fields=["state", "expires_at"], name="hot_key_state_expires")]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}"
