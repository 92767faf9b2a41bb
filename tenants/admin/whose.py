"""Whose usage a row is, also when its tenant or key was deleted: joined, such rows would be missing from the lists."""

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.utils.translation import gettext_lazy as _
from unfold.decorators import display

from tenants.models import ApiKey, Tenant


def with_names(rows: "QuerySet[Any]") -> "QuerySet[Any]":
    """Look up along the tenant's short name and the key's name."""
    tenant = Tenant.objects.filter(pk=OuterRef("tenant_id")).values("slug")
    key = ApiKey.objects.filter(pk=OuterRef("key_id")).values("name")
    named: QuerySet[Any] = rows.annotate(tenant_slug=Subquery(tenant), key_name=Subquery(key))
    return named


class WhoseColumns:
    """The two columns; one that was deleted is named by its number."""

    @display(description=_("tenant"))
    def whose_tenant(self, row: Any) -> str:
        """The tenant's short name."""
        return row.tenant_slug or f"#{row.tenant_id}"

    @display(description=_("API key"))
    def whose_key(self, row: Any) -> str:
        """The key's name."""
        return row.key_name or f"#{row.key_id}"
