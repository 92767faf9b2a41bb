"""Files that tenants keep here: what they upload to have it worked off in bulk, and what comes of it."""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from tenants.models.tenant import Tenant

BATCH, BATCH_OUTPUT = "batch", "batch_output"
PURPOSES = [(BATCH, _("Requests of a batch")), (BATCH_OUTPUT, _("Results of a batch"))]


class StoredFile(models.Model):
    """One file of a tenant. What it holds lies in the directory of files, under ``public_id``."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="files", verbose_name=_("tenant"))
    public_id = models.CharField(_("id"), max_length=40, unique=True, editable=False)
    filename = models.CharField(_("name"), max_length=255)
    purpose = models.CharField(_("purpose"), max_length=16, choices=PURPOSES)
    size_bytes = models.PositiveBigIntegerField(_("bytes"))
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True, db_index=True)

    class Meta:
        verbose_name = _("file")
        verbose_name_plural = _("files")
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["tenant", "created_at"], name="file_tenant_created")]

    def __str__(self) -> str:
        return self.public_id
