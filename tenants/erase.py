"""Erasing what was kept of a tenant: the part of it that is in the database."""

from dataclasses import dataclass

from django.db import transaction

from tenants.models import HotKey, StoredPrompt, Tenant, make_cache_salt


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """How many rows went.

    Attributes:
        prompts: stored prompts with all their versions.
        hot_keys: keys of the whitelist.
    """

    prompts: int
    hot_keys: int


def erase_rows(tenant_id: int, *, prompts: bool) -> ErasedRows:
    """Remove a tenant's hot keys and, if asked for, its stored prompts, and give it a new cache salt.

    The salt is part of the name of each kept answer: with a new one, none that was kept before can be found again, also
    where it was missed, and none that a request under way keeps under its old name. Gateways see the new salt within a
    moment and forget what they keep themselves. Engines' cached prefixes are found by the salt too: they are computed
    once more.

    Raises:
        Tenant.DoesNotExist: no such tenant.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer; nothing was changed.
    """
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update().get(pk=tenant_id)
        stored = StoredPrompt.objects.filter(tenant=tenant) if prompts else StoredPrompt.objects.none()
        erased = ErasedRows(stored.count(), HotKey.objects.filter(tenant=tenant).count())
        stored.delete()
        HotKey.objects.filter(tenant=tenant).delete()
        tenant.cache_salt = make_cache_salt()
        tenant.save(update_fields=["cache_salt"])
    return erased
