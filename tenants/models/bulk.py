"""Batches as OpenAI's API means them: files of requests that are worked off when engines have time.

They are called bulk jobs here, since a batch is what an engine takes at once.
"""

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from domain.bulk.status import JobStatus, SliceState
from tenants.models.key import ApiKey
from tenants.models.tenant import Tenant

STATUS_CHOICES = [
    (JobStatus.VALIDATING.value, _("Being checked")),
    (JobStatus.FAILED.value, _("Refused")),
    (JobStatus.IN_PROGRESS.value, _("In progress")),
    (JobStatus.FINALIZING.value, _("Being put together")),
    (JobStatus.COMPLETED.value, _("Completed")),
    (JobStatus.EXPIRED.value, _("Expired")),
    (JobStatus.CANCELLING.value, _("Being cancelled")),
    (JobStatus.CANCELLED.value, _("Cancelled")),
]
STATE_CHOICES = [
    (SliceState.WAITING.value, _("Waits")),
    (SliceState.RUNNING.value, _("Runs")),
    (SliceState.DONE.value, _("Done")),
]


class Leased(models.Model):
    """Something that one process at a time works on; another one may take it over when the lease has run out."""

    held_by = models.CharField(_("held by"), max_length=64, blank=True, editable=False)
    held_until = models.DateTimeField(_("held until"), null=True, editable=False)

    class Meta:
        abstract = True


class Counted(models.Model):
    """What came of requests so far."""

    completed = models.PositiveIntegerField(_("completed"), default=0, editable=False)
    failed = models.PositiveIntegerField(_("failed"), default=0, editable=False)
    prompt_tokens = models.PositiveBigIntegerField(_("prompt tokens"), default=0, editable=False)
    cached_tokens = models.PositiveBigIntegerField(_("cached tokens"), default=0, editable=False)
    completion_tokens = models.PositiveBigIntegerField(_("answer tokens"), default=0, editable=False)

    class Meta:
        abstract = True


class BulkJob(Leased, Counted):
    """One batch of a tenant. The lease is that of whoever checks its file, or puts its results together."""

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="bulk_jobs", verbose_name=_("tenant"))
    key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, related_name="+", verbose_name=_("key"))
    public_id = models.CharField(_("id"), max_length=40, unique=True, editable=False)
    endpoint = models.CharField(_("endpoint"), max_length=32)
    model = models.CharField(_("model"), max_length=200, blank=True)
    """Of its first request; known once the file is checked."""
    status = models.CharField(_("status"), max_length=12, choices=STATUS_CHOICES, default=JobStatus.VALIDATING.value)
    input_file_id = models.CharField(_("requests"), max_length=40)
    output_file_id = models.CharField(_("answers"), max_length=40, blank=True)
    error_file_id = models.CharField(_("failures"), max_length=40, blank=True)
    completion_window = models.CharField(_("to be completed within"), max_length=8, default="24h")
    metadata = models.JSONField(_("metadata"), null=True, blank=True)
    errors = models.JSONField(_("errors"), default=list, blank=True)
    """Why its file was refused: OpenAI's objects of code, line, message and param."""
    total = models.PositiveIntegerField(_("requests"), default=0, editable=False)
    waiting_for = models.CharField(_("waits for"), max_length=40, blank=True, editable=False)
    """Why its requests are not taken at present: a reason of the table of errors; empty while they are."""
    trace_id = models.CharField(_("trace"), max_length=32, db_index=True, editable=False)
    parent_id = models.CharField(max_length=16, blank=True, editable=False)
    """The client's span, 16 hex digits."""
    idempotency_key = models.CharField(max_length=32, blank=True, editable=False)
    """Digest of the client's key for the request that made it, or empty; ``idempotency_body`` of what came with it."""
    idempotency_body = models.CharField(max_length=32, blank=True, editable=False)
    output_lives_s = models.PositiveIntegerField(null=True, editable=False)
    """Seconds for which its results are kept; none for as long as any file."""
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), editable=False)
    in_progress_at = models.DateTimeField(_("begun"), null=True, editable=False)
    finalizing_at = models.DateTimeField(null=True, editable=False)
    completed_at = models.DateTimeField(null=True, editable=False)
    failed_at = models.DateTimeField(null=True, editable=False)
    expired_at = models.DateTimeField(null=True, editable=False)
    cancelling_at = models.DateTimeField(null=True, editable=False)
    cancelled_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        verbose_name = _("bulk job")
        verbose_name_plural = _("bulk jobs")
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["tenant", "created_at"], name="bulk_tenant_created"),
            models.Index(fields=["status", "created_at"], name="bulk_status_created"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["tenant", "idempotency_key"],
                name="bulk_idempotency_once",
                condition=~models.Q(idempotency_key=""),
            )
        ]

    def __str__(self) -> str:
        return self.public_id


class BulkSlice(Leased, Counted):
    """Consecutive lines of a job's file, worked off by one task."""

    job = models.ForeignKey(BulkJob, on_delete=models.CASCADE, related_name="slices", verbose_name=_("bulk job"))
    number = models.PositiveIntegerField(_("number"))
    first_line = models.PositiveIntegerField(_("first line"))
    """Counted from 1, as an editor does."""
    lines = models.PositiveIntegerField(_("lines"))
    """Requests; empty lines between them are not counted."""
    offset = models.PositiveBigIntegerField(editable=False)
    """Byte of the file at which it begins."""
    size_bytes = models.PositiveBigIntegerField(editable=False)
    state = models.CharField(_("state"), max_length=8, choices=STATE_CHOICES, default=SliceState.WAITING.value)
    attempt = models.PositiveIntegerField(_("attempt"), default=0, editable=False)
    """How often it was taken; results of each attempt lie in a file of its own."""
    rung_at = models.DateTimeField(default=timezone.now, editable=False)
    """When a message last told that it waits."""

    class Meta:
        verbose_name = _("slice of a bulk job")
        verbose_name_plural = _("slices of bulk jobs")
        ordering = ["job_id", "number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="bulk_slice_once")]
        indexes = [models.Index(fields=["state", "held_until"], name="bulk_slice_state")]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.number}"
