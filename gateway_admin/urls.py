"""Addresses of the operators' side; the data plane's own are in :mod:`gateway.urls`."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from gateway.openapi import SCHEMA_SETTINGS
from gateway_admin.account_page import account
from gateway_admin.batches_cancel_page import batch_cancel
from gateway_admin.batches_one_page import batch, batch_state
from gateway_admin.batches_page import batches, batches_state
from gateway_admin.cache_page import cache, cache_fix, cache_state
from gateway_admin.erase_page import erase_page
from gateway_admin.heat_page import heat_cell, heat_map, heat_state
from gateway_admin.live_page import engines, engines_state
from gateway_admin.now_page import now, now_state
from gateway_admin.packaged_files import serve_packaged_file
from gateway_admin.queues_page import queues, queues_state
from gateway_admin.service_map_page import service_map, service_map_state
from gateway_admin.switch_page import switch_page
from gateway_admin.trace_page import trace, trace_json, traces
from gateway_admin.why_page import why_slow

# The reference describes the data plane and is open to its users, who have no login here.
_schema = SpectacularAPIView.as_view(
    urlconf="gateway.urls", custom_settings=SCHEMA_SETTINGS, permission_classes=[], authentication_classes=[]
)
_docs = SpectacularSwaggerView.as_view(url_name="schema", permission_classes=[], authentication_classes=[])

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/engines/", admin.site.admin_view(engines), name="engines"),
    path("admin/engines/state", admin.site.admin_view(engines_state), name="engines-state"),
    path("admin/queues/", admin.site.admin_view(queues), name="queues"),
    path("admin/queues/state", admin.site.admin_view(queues_state), name="queues-state"),
    path("admin/queues/switch", admin.site.admin_view(switch_page), name="queues-switch"),
    path("admin/batches/", admin.site.admin_view(batches), name="batches"),
    path("admin/batches/state", admin.site.admin_view(batches_state), name="batches-state"),
    path("admin/batches/<str:public_id>/", admin.site.admin_view(batch), name="batch"),
    path("admin/batches/<str:public_id>/state", admin.site.admin_view(batch_state), name="batch-state"),
    path("admin/batches/<str:public_id>/cancel", admin.site.admin_view(batch_cancel), name="batch-cancel"),
    path("admin/tenants/tenant/<int:tenant_id>/erase", admin.site.admin_view(erase_page), name="tenant-erase"),
    path("admin/cache/", admin.site.admin_view(cache), name="cache"),
    path("admin/cache/state", admin.site.admin_view(cache_state), name="cache-state"),
    path("admin/cache/fix", admin.site.admin_view(cache_fix), name="cache-fix"),
    path("admin/traces/", admin.site.admin_view(traces), name="traces"),
    path("admin/traces/<str:request_id>.json", admin.site.admin_view(trace_json), name="trace-json"),
    path("admin/traces/<str:request_id>", admin.site.admin_view(trace), name="trace"),
    path("admin/why-slow/", admin.site.admin_view(why_slow), name="why-slow"),
    path("admin/now/", admin.site.admin_view(now), name="now"),
    path("admin/now/state", admin.site.admin_view(now_state), name="now-state"),
    path("admin/heat-map/", admin.site.admin_view(heat_map), name="heat-map"),
    path("admin/heat-map/state", admin.site.admin_view(heat_state), name="heat-state"),
    path("admin/heat-map/cell", admin.site.admin_view(heat_cell), name="heat-cell"),
    path("admin/service-map/", admin.site.admin_view(service_map), name="service-map"),
    path("admin/service-map/state", admin.site.admin_view(service_map_state), name="service-map-state"),
    path("admin/", admin.site.urls),
    path("account", account, name="account"),
    path("i18n/", include("django.conf.urls.i18n")),
    path("static/<path:path>", serve_packaged_file),
    path("api/schema", _schema, name="schema"),
    path("api/docs", _docs, name="schema-docs"),
    path("", include("gateway_admin.api.mounted")),
]
