"""What is kept of requests. Moments are microseconds since 1970, so that no row costs a conversion."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class StoredRequest(models.Model):
    """One request to a model, whether it was answered or refused.

    ``lengths`` holds the length in microseconds of each stage (:data:`domain.trace.stages.STAGES`), four bytes each,
    least significant first. ``moments`` holds everything (:class:`domain.trace.record.Record`), packed and compressed,
    where ``kept`` says why; else it is empty. ``recency_us`` is ``-started_us``, see :mod:`tracing.store.newest`.
    """

    request_id = models.CharField(_("request id"), max_length=36, unique=True)
    trace_id = models.CharField(_("trace id"), max_length=32)
    started_us = models.BigIntegerField(_("started"), db_index=True)
    recency_us = models.BigIntegerField(_("started, negative"))
    duration_us = models.BigIntegerField(_("duration"))
    ttft_us = models.BigIntegerField(_("time to first token"), null=True)
    tenant = models.CharField(_("tenant"), max_length=64, blank=True)
    qos_class = models.CharField(_("class"), max_length=2, blank=True)
    model = models.CharField(_("model"), max_length=200, blank=True)
    model_version = models.CharField(_("model version"), max_length=64, blank=True)
    endpoint = models.CharField(_("endpoint"), max_length=16)
    stream = models.BooleanField(_("streamed"))
    gateway_id = models.CharField(_("gateway"), max_length=64)
    worker_id = models.CharField(_("worker"), max_length=64, blank=True)
    batch_id = models.CharField(_("batch id"), max_length=64, blank=True, db_index=True)
    outcome = models.CharField(_("outcome"), max_length=16)
    status = models.PositiveSmallIntegerField(_("HTTP status"))
    code = models.CharField(_("reason"), max_length=64, blank=True)
    cache = models.CharField(_("from the cache"), max_length=9, blank=True)
    retry_attempt = models.PositiveSmallIntegerField(_("retries"))
    rollback_cause = models.CharField(_("cause of the last retry"), max_length=16, blank=True)
    prompt_tokens = models.PositiveBigIntegerField(_("prompt tokens"))
    cached_tokens = models.PositiveBigIntegerField(_("of these cached"))
    completion_tokens = models.PositiveBigIntegerField(_("answer tokens"))
    lengths = models.BinaryField(_("lengths of its stages"))
    kept = models.CharField(_("all moments kept because"), max_length=8, blank=True)
    moments = models.BinaryField(_("all moments"), null=True)

    class Meta:
        verbose_name = _("request")
        verbose_name_plural = _("requests")
        default_permissions = ("view",)
        indexes = [
            models.Index(fields=["tenant", "recency_us"], name="request_tenant_started"),
            models.Index(fields=["model_version", "recency_us"], name="request_version_started"),
            models.Index(fields=["outcome", "recency_us"], name="request_outcome_started"),
            models.Index(fields=["worker_id", "recency_us"], name="request_worker_started"),
        ]

    def __str__(self) -> str:
        return self.request_id


class RequestSum(models.Model):
    """How many requests of a tenant took how long, by minute and by hour, written with their rows.

    ``bucket`` counts from 0 along :data:`domain.trace.buckets.BOUNDS_MS`.
    """

    class Period(models.TextChoices):
        """What is summed up."""

        MINUTE = "m", _("minute")
        HOUR = "h", _("hour")

    class Measure(models.TextChoices):
        """Which time is counted."""

        TTFT = "t", _("time to first token")
        DURATION = "d", _("whole time")

    period = models.CharField(max_length=1, choices=Period.choices)
    starts_us = models.BigIntegerField()
    tenant = models.CharField(max_length=64, blank=True)
    model = models.CharField(max_length=200, blank=True)
    measure = models.CharField(max_length=1, choices=Measure.choices)
    bucket = models.PositiveSmallIntegerField()
    requests = models.PositiveBigIntegerField()
    errors = models.PositiveBigIntegerField()

    class Meta:
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["period", "starts_us", "tenant", "model", "measure", "bucket"], name="request_sum_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.period} {self.starts_us} {self.tenant}"


class EngineSteps(models.Model):
    """What one worker told at once of its engine's steps, and of launches of kernels beside them.

    ``name`` is that of the message, so that one that comes again is not stored twice. ``from_us`` and ``to_us`` are
    full seconds around the ends of what ``packed`` holds (:func:`tracing.store.step_packing.pack_steps`).
    """

    name = models.CharField(max_length=40, unique=True)
    worker_id = models.CharField(max_length=64)
    from_us = models.BigIntegerField()
    to_us = models.BigIntegerField()
    packed = models.BinaryField()

    class Meta:
        default_permissions = ()
        indexes = [models.Index(fields=["worker_id", "from_us"], name="steps_worker_from")]

    def __str__(self) -> str:
        return f"{self.worker_id} {self.from_us}"
