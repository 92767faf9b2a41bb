"""Addresses of the published schema of the data plane."""

from django.urls import URLPattern, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView

from gateway.openapi import SCHEMA_SETTINGS

_docs = SpectacularSwaggerView.as_view(permission_classes=[], authentication_classes=[])

urlpatterns: list[URLPattern] = [
    path(
        "schema",
        SpectacularAPIView.as_view(
            permission_classes=[],
            authentication_classes=[],
            urlconf="gateway.urls",
            custom_settings=SCHEMA_SETTINGS,
        ),
        name="schema",
    ),
    path("schema/docs", _docs, name="schema-docs"),
    path("docs", _docs, name="docs"),
]
