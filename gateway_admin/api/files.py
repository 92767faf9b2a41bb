"""Files that tenants keep: what is known of them, never what they hold."""

from typing import Any

from django.db.models import QuerySet
from django_filters import rest_framework as filters
from rest_framework import serializers
from rest_framework.filters import OrderingFilter

from gateway_admin.api.base import Listing
from gateway_admin.api.filtering import TenantFilter
from tenants.models import StoredFile


class FileSerializer(serializers.ModelSerializer[StoredFile]):
    """A file of a tenant, without its contents."""

    id = serializers.CharField(source="public_id", read_only=True)
    tenant = serializers.SlugRelatedField[Any](slug_field="slug", read_only=True, help_text="Short name.")

    class Meta:
        model = StoredFile
        fields = ("id", "tenant", "filename", "purpose", "size_bytes", "created_at", "expires_at")
        read_only_fields = fields


class FileFilter(filters.FilterSet):
    """By tenant and purpose."""

    tenant = TenantFilter()

    class Meta:
        model = StoredFile
        fields = ("tenant", "purpose")


class FileViewSet(Listing):
    """Files of tenants: the requests of batches, and their results. Only their tenants read and delete them."""

    queryset: "QuerySet[StoredFile]" = StoredFile.objects.select_related("tenant")
    serializer_class = FileSerializer
    filter_backends = (filters.DjangoFilterBackend, OrderingFilter)
    filterset_class = FileFilter
    ordering_fields = ("created_at", "expires_at", "size_bytes")
    ordering = ("-created_at", "-id")
    needs = {"list": "tenants.view_storedfile"}
