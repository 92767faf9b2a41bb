"""Searching among very many keys."""

import re
from typing import TYPE_CHECKING

from django.db.models import Q

from tenants.keys import LEAD, PREFIX_LENGTH
from tenants.models import ApiKey, Tenant

if TYPE_CHECKING:
    from django.db.models import QuerySet

_MOST_OWNERS = 500
_PREFIX = re.compile(rf"(?:{LEAD})?(\w{{{PREFIX_LENGTH}}})(?:-.*)?", re.ASCII | re.DOTALL)


def find_keys(keys: "QuerySet[ApiKey]", term: str) -> "QuerySet[ApiKey]":
    """Those with this prefix, written alone or as part of a key; else those whose name, or tenant's short name, has it.

    The prefix has an index and goes first, so that a pasted key is found at once among very many.
    """
    term = term.strip()
    if not term:
        return keys
    pasted = _PREFIX.fullmatch(term)
    if pasted and (term.startswith(LEAD) or ApiKey.objects.filter(prefix=pasted[1]).exists()):
        return keys.filter(prefix=pasted[1])
    owners = Tenant.objects.filter(slug__icontains=term).order_by().values_list("pk", flat=True)
    few = list(owners[: _MOST_OWNERS + 1])
    # Few are named one by one: then Postgres knows that they are, and reads the table once, in its own order.
    return keys.filter(Q(name__icontains=term) | Q(tenant__in=few if len(few) <= _MOST_OWNERS else owners))
