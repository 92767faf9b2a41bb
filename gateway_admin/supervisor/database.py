"""Bring the database up to date and put the first tenant and operator into it.

``python -m gateway_admin.supervisor.database``
"""

import django


def main() -> None:
    """Migrate, then provision from the secrets of the data directory."""
    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from gateway_admin.supervisor.credentials import ADMIN_USER, load_credentials, replace_api_key
    from tenants.keys import make_key
    from tenants.provision import ensure_admin, ensure_demo_tenant, is_spent

    call_command("migrate", interactive=False)
    credentials = load_credentials(settings.SLUICE.data_dir, lambda: make_key().plaintext)
    api_key = credentials.api_key
    if is_spent(api_key):  # rotated in the admin, as a first key should be
        api_key = replace_api_key(settings.SLUICE.data_dir, make_key().plaintext)
    ensure_demo_tenant(api_key)
    ensure_admin(ADMIN_USER, credentials.admin_password)


if __name__ == "__main__":
    main()
