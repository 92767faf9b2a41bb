"""Addresses of the operators' API, below ``/api/v1/``."""

from typing import Any

from django.urls import path, re_path, register_converter

from gateway_admin.api.adjustments import AdjustmentViewSet
from gateway_admin.api.audit_log import AuditLogViewSet
from gateway_admin.api.batches import BatchViewSet
from gateway_admin.api.files import FileViewSet
from gateway_admin.api.hot_keys import HotKeyViewSet
from gateway_admin.api.invoice import InvoiceViewSet
from gateway_admin.api.keys import KeyViewSet
from gateway_admin.api.me import MeViewSet
from gateway_admin.api.not_found import NotFoundView
from gateway_admin.api.plans import PlanViewSet
from gateway_admin.api.prices import PriceViewSet
from gateway_admin.api.reference import docs, schema
from gateway_admin.api.tenant_limits import TenantLimitsViewSet
from gateway_admin.api.tenants import TenantViewSet
from gateway_admin.api.tokens import TokenViewSet
from gateway_admin.api.usage import UsageViewSet
from gateway_admin.api.usage_export import UsageExportViewSet
from gateway_admin.api.usage_sums import UsageSumsViewSet


class RowId:
    """Digits that fit into a database's integer."""

    regex = "[0-9]{1,18}"

    def to_python(self, value: str) -> int:
        """As a number."""
        return int(value)

    def to_url(self, value: int) -> str:
        """As text."""
        return str(value)


class RequestId:
    """A request's id."""

    regex = "[0-9A-Za-z-]{1,64}"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


class BatchId:
    """A batch's id, as its tenant knows it."""

    regex = "batch_[0-9a-f]{24}"

    def to_python(self, value: str) -> str:
        """As it is."""
        return value

    def to_url(self, value: str) -> str:
        """As it is."""
        return value


register_converter(RowId, "row_id")
register_converter(BatchId, "batch_id")
register_converter(RequestId, "request_id")

_Actions = dict[str, Any]

_LIST: _Actions = {"get": "list"}
_ONE: _Actions = {"get": "retrieve"}
_LIST_AND_MAKE: _Actions = {"get": "list", "post": "create"}
_CHANGE: _Actions = {"get": "retrieve", "patch": "partial_update", "delete": "destroy"}

urlpatterns = [
    path("tenants", TenantViewSet.as_view(_LIST_AND_MAKE)),
    path("tenants/<slug:slug>", TenantViewSet.as_view(_CHANGE)),
    path("tenants/<slug:slug>/limits", TenantLimitsViewSet.as_view({"get": "limits"})),
    path("tenants/<slug:slug>/invoice", InvoiceViewSet.as_view({"get": "invoice"})),
    path("plans", PlanViewSet.as_view(_LIST_AND_MAKE)),
    path("plans/<row_id:pk>", PlanViewSet.as_view(_CHANGE)),
    path("keys", KeyViewSet.as_view(_LIST_AND_MAKE)),
    path("keys/<row_id:pk>", KeyViewSet.as_view(_CHANGE)),
    path("keys/<row_id:pk>/rotate", KeyViewSet.as_view({"post": "rotate"})),
    path("keys/<row_id:pk>/revoke", KeyViewSet.as_view({"post": "revoke"})),
    path("hot-keys", HotKeyViewSet.as_view(_LIST_AND_MAKE)),
    path("hot-keys/<row_id:pk>", HotKeyViewSet.as_view(_ONE)),
    *(
        path(f"hot-keys/<row_id:pk>/{what}", HotKeyViewSet.as_view({"post": what}))
        for what in ("pin", "ban", "release")
    ),
    path("batches", BatchViewSet.as_view(_LIST)),
    path("batches/<batch_id:public_id>", BatchViewSet.as_view(_ONE)),
    path("batches/<batch_id:public_id>/cancel", BatchViewSet.as_view({"post": "cancel"})),
    path("files", FileViewSet.as_view(_LIST)),
    path("prices", PriceViewSet.as_view(_LIST_AND_MAKE)),
    path("prices/<row_id:pk>", PriceViewSet.as_view(_CHANGE)),
    path("usage/records", UsageViewSet.as_view(_LIST)),
    path("usage/records/<request_id:request_id>", UsageViewSet.as_view(_ONE)),
    path("usage/aggregate", UsageSumsViewSet.as_view({"get": "aggregate"})),
    path("usage/export", UsageExportViewSet.as_view({"get": "export"})),
    path("adjustments", AdjustmentViewSet.as_view(_LIST_AND_MAKE)),
    path("adjustments/<row_id:pk>", AdjustmentViewSet.as_view(_ONE)),
    path("audit-log", AuditLogViewSet.as_view(_LIST)),
    path("audit-log/<row_id:pk>", AuditLogViewSet.as_view(_ONE)),
    path("tokens", TokenViewSet.as_view(_LIST_AND_MAKE)),
    path("tokens/<row_id:pk>", TokenViewSet.as_view({"get": "retrieve", "delete": "destroy"})),
    path("me", MeViewSet.as_view({"get": "me"})),
    path("schema", schema, name="operators-schema"),
    path("docs", docs, name="operators-docs"),
    re_path(r"^.*$", NotFoundView.as_view()),
]
