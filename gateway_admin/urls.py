"""Addresses of the operators' side; the data plane's are in :mod:`gateway`."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from gateway_admin.packaged_files import serve_packaged_file

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("admin/", admin.site.urls),
    path("i18n/", include("django.conf.urls.i18n")),
    path("static/<path:path>", serve_packaged_file),
    path("api/schema", SpectacularAPIView.as_view(permission_classes=[]), name="schema"),
    path("api/schema/docs", SpectacularSwaggerView.as_view(permission_classes=[]), name="schema-docs"),
]
