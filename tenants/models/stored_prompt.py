"""Stored prompts: templates that a tenant keeps here and names in its requests."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.tenant import Tenant


class StoredPrompt(models.Model):
    """A prompt of a tenant; what it says is in its versions. Deleted for good, with all of them."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="prompts", verbose_name=_("tenant"))
    public_id = models.CharField(_("id"), max_length=40, unique=True, editable=False)
    name = models.CharField(_("name"), max_length=100, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("stored prompt")
        verbose_name_plural = _("stored prompts")
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["tenant", "created_at"], name="prompt_tenant_created")]

    def __str__(self) -> str:
        return self.public_id


class PromptVersion(models.Model):
    """What a stored prompt says from one version on; never changed once made."""

    prompt = models.ForeignKey(
        StoredPrompt, on_delete=models.CASCADE, related_name="versions", verbose_name=_("stored prompt")
    )
    number = models.PositiveIntegerField(_("version"))
    messages = models.JSONField(_("messages"))
    """OpenAI's messages; ``{{name}}`` in their texts stands for a variable."""
    variables = models.JSONField(_("variables"), default=list)
    """Names that the texts use, in order."""
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)

    class Meta:
        verbose_name = _("version of a stored prompt")
        verbose_name_plural = _("versions of stored prompts")
        ordering = ["prompt_id", "number"]
        constraints = [models.UniqueConstraint(fields=["prompt", "number"], name="prompt_version_once")]

    def __str__(self) -> str:
        return f"{self.prompt_id} v{self.number}"
