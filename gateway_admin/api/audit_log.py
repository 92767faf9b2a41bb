"""The audit log: who changed what."""

from typing import Any

from auditlog.models import LogEntry
from django.db.models import QuerySet
from django_filters import rest_framework as filters
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from gateway_admin.api.base import Reading
from gateway_admin.api.filtering import IdFilter, MomentFilter
from gateway_admin.api.paging import TimeCursor
from gateway_admin.audit import TOLD_OF
from gateway_admin.roles import VIEW_AUDIT_LOG

_ACTIONS = {LogEntry.Action.CREATE: "create", LogEntry.Action.UPDATE: "update", LogEntry.Action.DELETE: "delete"}
_NUMBERS = {name: number for number, name in _ACTIONS.items()}
_TYPES = tuple(model._meta.model_name or "" for model in TOLD_OF)


class LogEntrySerializer(serializers.ModelSerializer[LogEntry]):
    """One change. Secrets are never part of it."""

    at = serializers.DateTimeField(source="timestamp", read_only=True)
    by = serializers.SerializerMethodField(help_text='A user\'s name, or "command line".')
    token = serializers.SerializerMethodField(help_text="Name of the automation token; empty for a session.")
    action = serializers.SerializerMethodField()
    object_type = serializers.SerializerMethodField()
    object = serializers.CharField(source="object_repr", read_only=True)
    changes = serializers.SerializerMethodField()

    class Meta:
        model = LogEntry
        fields = ("id", "at", "by", "token", "remote_addr", "action", "object_type", "object_id", "object", "changes")

    def get_by(self, entry: LogEntry) -> str:
        """Kept with the entry, since users come and go."""
        return str((entry.additional_data or {}).get("by", ""))

    def get_token(self, entry: LogEntry) -> str:
        """Likewise."""
        return str((entry.additional_data or {}).get("token", ""))

    @extend_schema_field({"type": "string", "enum": sorted(_NUMBERS)})
    def get_action(self, entry: LogEntry) -> str:
        """In words."""
        return _ACTIONS[entry.action]

    @extend_schema_field({"type": "string", "enum": sorted(_TYPES)})
    def get_object_type(self, entry: LogEntry) -> str:
        """Of what kind the object is."""
        return str(entry.content_type.model)

    @extend_schema_field({"type": "object", "additionalProperties": {}})
    def get_changes(self, entry: LogEntry) -> Any:
        """Field -> values before and after, or what was added to or taken from a relation."""
        return entry.changes or {}


class LogEntryFilter(filters.FilterSet):
    """By whom, what and when."""

    by = filters.CharFilter(method="filter_by", help_text="Name of a user.")
    action = filters.ChoiceFilter(choices=[(name, name) for name in _NUMBERS], method="filter_action")
    object_type = filters.ChoiceFilter(field_name="content_type__model", choices=[(name, name) for name in _TYPES])
    object_id = IdFilter(help_text="Together with object_type.")
    start = MomentFilter(field_name="timestamp", lookup_expr="gte", help_text="At or after this moment.")
    end = MomentFilter(field_name="timestamp", lookup_expr="lt", help_text="Before this moment.")

    class Meta:
        model = LogEntry
        fields = ("by", "action", "object_type", "object_id", "start", "end")

    def filter_by(self, entries: "QuerySet[LogEntry]", name: str, value: str) -> "QuerySet[LogEntry]":
        """By the name as it was kept."""
        return entries.filter(additional_data__by=value)

    def filter_action(self, entries: "QuerySet[LogEntry]", name: str, value: str) -> "QuerySet[LogEntry]":
        """In words."""
        return entries.filter(action=_NUMBERS[value])


class LogCursor(TimeCursor):
    """The latest first."""

    ordering = ("-timestamp", "-id")


class AuditLogViewSet(Reading):
    """Who changed which plan, tenant, key, price, adjustment, token, user or group; to read, never to change."""

    queryset: "QuerySet[LogEntry]" = LogEntry.objects.select_related("content_type")
    serializer_class = LogEntrySerializer
    lookup_field = "pk"
    pagination_class = LogCursor
    filter_backends = (filters.DjangoFilterBackend,)
    filterset_class = LogEntryFilter
    needs = {"list": VIEW_AUDIT_LOG, "retrieve": VIEW_AUDIT_LOG}
