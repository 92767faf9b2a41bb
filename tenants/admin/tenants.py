"""The pages of tenants."""

from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Count, OuterRef, Q, QuerySet, Subquery, Sum, URLField
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponseBase, HttpResponseRedirect
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.admin import TabularInline
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action, display

from tenants.admin.charts import usage_charts
from tenants.admin.figures import money
from tenants.admin.history import AuditedAdmin
from tenants.admin.holding import own_limits_line
from tenants.admin.key_state import STATE_NAMES, ends_at, key_state, masked, when
from tenants.admin.live_view import live_state
from tenants.admin.month_view import budget_of, month_context
from tenants.admin.paging import Endless
from tenants.day import usage_of_day
from tenants.models import Adjustment, ApiKey, Tenant, UsageRecord, UsageRollup
from tenants.month import month_bounds


class ApiKeyInline(TabularInline):
    """The tenant's keys, to look at; they are made and ended on their own pages."""

    model = ApiKey
    extra = 0
    per_page = 20
    fields = ("page", "masked", "state", "limits", "created_at", "ends_at")
    readonly_fields = fields
    can_delete = False
    hide_title = True

    def get_queryset(self, request: HttpRequest) -> "QuerySet[ApiKey]":
        """Read the plans along, whose limits hold too."""
        keys: QuerySet[ApiKey] = super().get_queryset(request)
        return keys.select_related("tenant__plan")

    def has_add_permission(self, request: HttpRequest, obj: Tenant | None = None) -> bool:
        """Never here: a new key must be shown once."""
        return False

    @display(description=_("name"))
    def page(self, key: ApiKey) -> SafeString:
        """The name, leading to the key's own page."""
        url = reverse("admin:tenants_apikey_change", args=[key.pk])
        return format_html('<a class="sluice-link" href="{}">{}</a>', url, key.name)

    @display(description=_("key"))
    def masked(self, key: ApiKey) -> str:
        """The part of the key that is known."""
        return masked(key)

    @display(description=_("state"))
    def state(self, key: ApiKey) -> str:
        """Whether the key opens the door."""
        return str(STATE_NAMES[key_state(key)])

    @display(description=_("limits"))
    def limits(self, key: ApiKey) -> str:
        """The limits of its own that hold, or that the tenant's plan does."""
        return own_limits_line(key)

    @display(description=_("ends"))
    def ends_at(self, key: ApiKey) -> str:
        """When the key stops working, or did."""
        return when(ends_at(key))


@admin.register(Tenant)
class TenantAdmin(AuditedAdmin):
    """Tenants: their limits as they stand, this month, usage and keys."""

    change_form_outer_before_template = "tenants/tenant_top.html"
    change_form_outer_after_template = "tenants/tenant_bottom.html"
    list_display = ("slug", "name", "plan", "active", "keys_in_force", "month_cost", "last_request_at")
    list_filter = ("active", ("plan", AutocompleteSelectFilter))
    list_filter_submit = True
    list_select_related = ("plan",)
    # By the index that is there: other orders would compute every tenant's figures for one page.
    sortable_by = ("slug",)
    paginator = Endless
    search_fields = ("slug", "name")
    autocomplete_fields = ("plan",)
    inlines = (ApiKeyInline,)
    actions_detail = ("new_key", "see_usage", "see_days", "erase_kept")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Tenant]":
        """Look up along, for the rows of one page, keys, this month and the last request."""
        tenants: QuerySet[Tenant] = super().get_queryset(request)
        return tenants.annotate(**_looked_up(timezone.now()))

    def get_urls(self) -> list[URLPattern]:
        """Add the live figures."""
        live = path("<path:object_id>/live", self.admin_site.admin_view(self.live_view), name="tenants_tenant_live")
        urls: list[URLPattern] = super().get_urls()
        return [live, *urls]

    def live_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """How far the tenant's limits are used, as JSON.

        Raises:
            Http404: no such tenant.
            PermissionDenied: the operator may not see it.
        """
        if not self.has_view_permission(request):
            raise PermissionDenied
        tenant = Tenant.objects.select_related("plan").filter(pk=object_id).first() if object_id.isdigit() else None
        if tenant is None:
            raise Http404(object_id)
        return live_state(tenant)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Add this month, the live limits and the charts."""
        context = dict(extra_context or {})
        tenant = self.get_object(request, object_id) if object_id is not None else None
        if tenant is not None and request.method == "GET":
            now = timezone.now()
            context["month"] = month_context(tenant, now)
            context["live_url"] = reverse("admin:tenants_tenant_live", args=[tenant.pk])
            context["usage_charts"] = usage_charts(tenant.pk, now)
        return super().changeform_view(request, object_id, form_url, context)

    def get_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        """Ask for little; show what is known."""
        asked = ("slug", "name", "plan", "active", "alert_email", "alert_webhook")
        return asked if obj is None else (*asked, "created_at", "usage_today")

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        """The short name is in logs, metrics and queues: it stays."""
        return () if obj is None else ("slug", "created_at", "usage_today")

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """An address without a scheme is one of https."""
        if isinstance(db_field, URLField):
            kwargs["assume_scheme"] = "https"
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Refuse what has usage without listing it: that can be millions of rows."""
        used = [tenant for tenant in objs if _is_counted(tenant)]
        if used:
            told = gettext("%(tenant)s has usage or corrections, which bills are made from. Switch it off instead.")
            return [], {}, set(), [told % {"tenant": tenant} for tenant in used]
        return super().get_deleted_objects(objs, request)

    @display(description=_("keys in force"))
    def keys_in_force(self, tenant: Any) -> int:
        """Keys that are neither revoked nor expired."""
        return int(tenant.keys_in_force)

    @display(description=_("this month"))
    def month_cost(self, tenant: Any) -> str:
        """Cost of this month, and of what budget."""
        spent, budget = money(tenant.month_nano), budget_of(tenant.plan)
        if budget is None:
            return spent
        return gettext("%(spent)s of %(budget)s") % {"spent": spent, "budget": money(budget)}

    @display(description=_("last request"))
    def last_request_at(self, tenant: Any) -> str:
        """When the last request of this tenant ended."""
        return when(tenant.last_request_at)

    @display(description=_("usage today (UTC)"))
    def usage_today(self, tenant: Tenant) -> SafeString:
        """Requests and tokens since midnight."""
        return render_to_string("operators/usage_line.html", {"usage": usage_of_day(timezone.now(), tenant.pk)})

    # Named by methods: the theme looks a permission's own name up in the database while the settings are checked.
    def has_add_key_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """Whether the operator may make keys."""
        return bool(request.user.has_perm("tenants.add_apikey"))

    def has_view_usage_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """Whether the operator may read usage."""
        return bool(request.user.has_perm("tenants.view_usagerecord"))

    @action(description=_("New API key"), icon="key", permissions=["add_key"])
    def new_key(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go and make a key for this tenant."""
        return HttpResponseRedirect(f"{reverse('admin:tenants_apikey_add')}?{urlencode({'tenant': object_id})}")

    @action(description=_("Requests"), icon="receipt_long", permissions=["view_usage"])
    def see_usage(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go to the usage records of this tenant."""
        query = urlencode({"tenant__id__exact": object_id})
        return HttpResponseRedirect(f"{reverse('admin:tenants_usagerecord_changelist')}?{query}")

    @action(description=_("By day"), icon="calendar_month", permissions=["view_usage"])
    def see_days(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go to the sums by day of this tenant."""
        query = urlencode({"tenant__id__exact": object_id})
        return HttpResponseRedirect(f"{reverse('admin:tenants_usagerollup_changelist')}?{query}")

    @action(description=_("Erase kept answers"), icon="delete_sweep", permissions=["change"])
    def erase_kept(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go to the page that asks whether to."""
        return HttpResponseRedirect(reverse("tenant-erase", args=[object_id]))


def _looked_up(now: datetime) -> dict[str, Any]:
    """Figures of each row as queries of their own: joined, they would be computed for all tenants at once."""
    start, end = month_bounds(now)
    mine = OuterRef("pk")
    in_force = Q(revoked_at=None) | Q(revoked_at__gt=now), Q(expires_at=None) | Q(expires_at__gt=now)
    keys = ApiKey.objects.filter(*in_force, tenant=mine).order_by().values("tenant").annotate(found=Count("pk"))
    days = UsageRollup.objects.filter(
        tenant=mine, period=UsageRollup.Period.DAY, starts_at__gte=start, starts_at__lt=end
    )
    corrections = Adjustment.objects.filter(tenant=mine, month=start.date())
    latest = UsageRecord.objects.filter(tenant=mine).order_by("-finished_at").values("finished_at")[:1]
    return {
        "keys_in_force": Coalesce(Subquery(keys.values("found")), 0),
        "month_nano": _sum(days) + _sum(corrections),
        "last_request_at": Subquery(latest),
    }


def _sum(rows: "QuerySet[Any]") -> Coalesce:
    by_tenant = rows.order_by().values("tenant").annotate(found=Sum("cost_nano")).values("found")
    return Coalesce(Subquery(by_tenant), 0)


def _is_counted(tenant: Tenant) -> bool:
    sums = UsageRollup.objects.filter(tenant=tenant)
    return tenant.usage.exists() or sums.exists() or tenant.adjustments.exists()
