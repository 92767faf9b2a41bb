"""The Django app of tenants, plans, keys and usage."""

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class TenantsConfig(AppConfig):
    """Watches the tables of which the gateways hold a snapshot."""

    name = "tenants"
    verbose_name = _("Access and usage")

    def ready(self) -> None:
        """Connect the signals; models can be imported only now."""
        from tenants import models, revision

        revision.connect((models.Plan, models.Tenant, models.ApiKey, models.Price))
