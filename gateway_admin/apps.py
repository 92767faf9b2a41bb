"""The Django app of the operators' side."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class GatewayAdminConfig(AppConfig):
    """Loads the system checks."""

    name = "gateway_admin"
    verbose_name = _("Operations")

    def ready(self) -> None:
        """Register the checks."""
        from gateway_admin import checks  # noqa: F401  (registers itself, and needs the settings)
