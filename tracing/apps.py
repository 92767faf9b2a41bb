"""The Django app of stored requests."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TracingConfig(AppConfig):
    """Holds the tables of :mod:`tracing.models`."""

    name = "tracing"
    verbose_name = _("Traces")
