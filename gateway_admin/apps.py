"""The Django app of the operators' side."""

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class GatewayAdminConfig(AppConfig):
    """Loads the system checks, the roles and the audit log."""

    name = "gateway_admin"
    verbose_name = _("Operations")

    def ready(self) -> None:
        """Register the checks, and what is watched; models can be imported only now."""
        from gateway_admin import audit, checks  # noqa: F401  (checks register themselves, and need the settings)
        from gateway_admin.roles import make_groups

        audit.watch()
        # This app is the last, so that the permissions of all others are there.
        post_migrate.connect(make_groups, sender=self, dispatch_uid="roles")
