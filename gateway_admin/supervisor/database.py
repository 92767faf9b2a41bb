"""Bring the database up to date and put the first tenant and operator into it.

``python -m gateway_admin.supervisor.database``
"""

import django


def main() -> None:
    """Migrate, then provision from the secrets of the data directory."""
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from gateway_admin.supervisor.credentials import ADMIN_USER, load_credentials
    from tenants.keys import make_key
    from tenants.provision import ensure_admin, ensure_demo_tenant

    call_command("migrate", interactive=False)
    credentials = load_credentials(settings.SLUICE.data_dir, lambda: make_key().plaintext)
    ensure_demo_tenant(credentials.api_key)
    ensure_admin(ADMIN_USER, credentials.admin_password)


if __name__ == "__main__":
    main()
