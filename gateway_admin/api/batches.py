"""Batches of tenants: how they stand, and their end before their time."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.filters import OrderingFilter
from rest_framework.request import Request
from rest_framework.response import Response

from domain.bulk.status import JobStatus
from gateway_admin.api.base import Reading
from gateway_admin.api.errors import Conflict
from gateway_admin.api.filtering import TenantFilter
from gateway_admin.api.serializing import StrictSerializer
from gateway_admin.audit import note_cancelling
from gateway_admin.roles import SWITCH_TRAFFIC
from tenants.bulk.jobs import JobEnded, cancel_job, counted
from tenants.models import BulkJob, BulkSlice

_COUNTS = ("completed", "failed", "prompt_tokens", "cached_tokens", "completion_tokens")


class SliceSerializer(serializers.ModelSerializer[BulkSlice]):
    """Consecutive lines of a batch's file, which one process at a time works off."""

    class Meta:
        model = BulkSlice
        fields = ("number", "first_line", "lines", "state", "attempt", "held_by", "held_until", *_COUNTS)
        read_only_fields = fields


class BatchErrorSerializer(serializers.Serializer[Any]):
    """Where a file is no good. Its text is left out: it may repeat what the tenant wrote."""

    code = serializers.CharField()
    line = serializers.IntegerField(allow_null=True, help_text="From 1 on; null if it is about the whole file.")


class BatchSerializer(serializers.ModelSerializer[BulkJob]):
    """A batch, without what its tenant wrote: no contents, no custom ids, no metadata."""

    id = serializers.CharField(source="public_id", read_only=True)
    tenant = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, help_text="Short name.")
    key_prefix = serializers.SerializerMethodField(help_text="Of the key that made it; null if that is gone.")
    waiting_for = serializers.CharField(
        read_only=True, help_text="Why its requests are not taken at present: a reason of the API's errors; or empty."
    )
    errors = BatchErrorSerializer(  # type: ignore[assignment]  # the name of the field, not of the serializer's own
        many=True, read_only=True, help_text="Why its file was refused."
    )

    class Meta:
        model = BulkJob
        fields: tuple[str, ...] = (
            *("id", "tenant", "key_prefix", "endpoint", "model", "status", "waiting_for", "completion_window"),
            *("input_file_id", "output_file_id", "error_file_id", "trace_id", "total", *_COUNTS, "errors"),
            *("created_at", "expires_at", "in_progress_at", "finalizing_at", "completed_at", "failed_at"),
            *("expired_at", "cancelling_at", "cancelled_at"),
        )
        read_only_fields = fields

    @extend_schema_field({"type": ["string", "null"]})
    def get_key_prefix(self, job: BulkJob) -> str | None:
        """What may be shown of the key."""
        return job.key.prefix if job.key else None


class BatchWithSlicesSerializer(BatchSerializer):
    """The same with its slices; there are none before its file is checked, and after it has ended."""

    slices = SliceSerializer(many=True, read_only=True)

    class Meta(BatchSerializer.Meta):
        fields = (*BatchSerializer.Meta.fields, "slices")
        read_only_fields = fields


class ReasonSerializer(StrictSerializer):
    """Why."""

    reason = serializers.CharField(max_length=300, help_text="For the audit log.")


class BatchFilter(filters.FilterSet):
    """By tenant and status."""

    tenant = TenantFilter()

    class Meta:
        model = BulkJob
        fields = ("tenant", "status")


class BatchViewSet(Reading):
    """Batches. Tenants make and cancel them by their own API; operators see how they stand, and may cancel them."""

    queryset: "QuerySet[BulkJob]" = BulkJob.objects.select_related("tenant", "key").defer("metadata")
    lookup_field = "public_id"
    filter_backends = (filters.DjangoFilterBackend, OrderingFilter)
    filterset_class = BatchFilter
    ordering_fields = ("created_at", "expires_at", "total")
    ordering = ("-created_at", "-id")
    needs = {"list": "tenants.view_bulkjob", "retrieve": "tenants.view_bulkjob", "cancel": SWITCH_TRAFFIC}

    def get_serializer_class(self) -> type[BatchSerializer]:
        """With its slices where it is one."""
        return BatchSerializer if self.action == "list" else BatchWithSlicesSerializer

    def paginate_queryset(self, queryset: Any) -> Any:
        """One page, its counts up to date."""
        page = super().paginate_queryset(queryset)
        return None if page is None else counted(page)

    def row(self, *, locked: bool = False) -> BulkJob:
        """The batch that the address names, its counts up to date; not to be saved."""
        return counted([super().row(locked=locked)])[0]

    @extend_schema(request=ReasonSerializer, responses=BatchWithSlicesSerializer)
    def cancel(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Cancel it: what runs is ended; what has a result keeps it, and the tenant gets that. Doing it twice changes
        nothing.

        Raises:
            Conflict: it has ended, or is about to.
        """
        asked = ReasonSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        with transaction.atomic():
            job = self.row(locked=True)
            if job.status != JobStatus.CANCELLING:
                before = job.status
                try:
                    cancel_job(job.public_id)
                except JobEnded as ended:
                    raise Conflict(f"It cannot be cancelled any more: its status is {ended.status}.") from ended
                job = self.row()
                note_cancelling(job, before, asked.validated_data["reason"])
        return self.shown(job)
