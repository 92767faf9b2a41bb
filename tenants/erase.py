"""Erasing what was kept of a tenant: the part of it that is in the database."""

from dataclasses import dataclass

from django.db import transaction

from tenants.models import HotKey, StoredPrompt, Tenant, make_cache_salt
from tenants.prompts import erase_prompts


@dataclass(frozen=True, slots=True)
class ErasedRows:
    """What went.

    Attributes:
        prompt_ids: stored prompts, with all their versions.
        hot_keys: rows of the whitelist.
        salt: the tenant's new cache salt.
    """

    prompt_ids: list[str]
    hot_keys: int
    salt: str


def prompt_ids(tenant_id: int) -> list[str]:
    """Ids of a tenant's stored prompts."""
    return list(StoredPrompt.objects.filter(tenant_id=tenant_id).values_list("public_id", flat=True))


def erase_rows(tenant_id: int, *, prompts: bool) -> ErasedRows:
    """Remove a tenant's hot keys and, if asked for, its stored prompts, and give it a new cache salt.

    The salt is part of the name of each kept answer: with a new one, none that was kept before can be found again, also
    where it was missed, and none that a request under way keeps under its old name. Gateways see the new salt within a
    moment and forget what they keep themselves. Engines find cached prefixes by the salt too: those are computed anew.

    Raises:
        Tenant.DoesNotExist: no such tenant.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer; nothing was changed.
    """
    with transaction.atomic():
        tenant = Tenant.objects.select_for_update().get(pk=tenant_id)
        erased_ids = erase_prompts(tenant_id) if prompts else []
        hot = HotKey.objects.filter(tenant=tenant)
        # Unless its prompts go too, what operators said of them stays; names of answers mean nothing from now on.
        _, by_model = (hot if prompts else hot.filter(kind=HotKey.Kind.ANSWER)).delete()
        tenant.cache_salt = make_cache_salt()
        tenant.save(update_fields=["cache_salt"])
    return ErasedRows(erased_ids, by_model.get(HotKey._meta.label, 0), tenant.cache_salt)
