"""The addresses as they are reached, for the schema."""

from django.urls import include, path

urlpatterns = [path("api/v1/", include("gateway_admin.api.urls"))]
