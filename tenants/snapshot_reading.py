"""Reads the rows of a snapshot that changed since some revision: in few columns, since there may be many."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import orjson
from django.db.models import Model, Q, QuerySet, TextField
from django.db.models.functions import Cast

from domain.limits import Level, Limit
from domain.price import PriceRow
from domain.qos import QosClass
from tenants.models import LIMIT_FIELDS, ApiKey, Plan, Price, Tenant
from tenants.models.limits import SOFT_FIELDS, limits_of
from tenants.snapshot_rows import Caching, PlanRow, TenantRow, Terms, TermsPool, pack_key

_CHUNK = 10_000
"""Rows fetched at once."""

_HAS_OWN_LIMITS = Q(*(Q(**{f"{name}__isnull": False}) for name in LIMIT_FIELDS), _connector=Q.OR)

_M = TypeVar("_M", bound=Model)


_PLAN = ("id", "name", "best_class", "weight", "allowed_models", "cache_sharing", "retention_hours")
_CACHING = ("response_cache", "response_cache_ttl_s", "cached_price_percent", "max_stale_s")
_SOFT = tuple(f"{name}_soft" for name in SOFT_FIELDS)


def read_plans(since: int) -> dict[int, PlanRow]:
    """Plans by id."""
    rows = _rows(_changed(Plan.objects.all(), since), *_PLAN, *_CACHING, *_SOFT, *LIMIT_FIELDS)
    return {row[0]: _plan_row(row) for row in rows}


def _plan_row(row: Sequence[Any]) -> PlanRow:
    _, name, best, weight, models, sharing, retention_hours = row[: len(_PLAN)]
    rest = row[len(_PLAN) :]
    caching, caps = rest[: len(_CACHING)], rest[len(_CACHING) :]
    return PlanRow(
        name=name,
        best_class=QosClass(best),
        weight=weight,
        limits=limits_of(Level.TENANT, caps[len(_SOFT) :]),
        allowed_models=frozenset(models) or None,
        shares_cache=sharing == "shared",
        retention_hours=retention_hours,
        caching=Caching(*caching),
        soft_limits=limits_of(Level.TENANT, caps[: len(_SOFT)], SOFT_FIELDS),
    )


def read_tenants(since: int) -> dict[int, bytes]:
    """Packed tenants by id."""
    rows = _rows(_changed(Tenant.objects.all(), since), "id", "slug", "plan_id", "active", "cache_salt")
    return {row[0]: TenantRow(*row[1:]).pack() for row in rows}


def read_keys(since: int, pool: TermsPool) -> dict[bytes, bytes]:
    """Packed keys by digest; their terms are added to ``pool``."""
    # The limits first: a key that changes in between is read again at the next look, and was never left out.
    limits = _own_limits(since)
    numbers: dict[tuple[str, str], int] = {}
    found = {}
    # JSON as text: the same few texts again and again, of which each is parsed once.
    rows = _changed(ApiKey.objects.all(), since).annotate(
        scopes_json=Cast("scopes", TextField()), addresses_json=Cast("allowed_addresses", TextField())
    )
    names = ("digest", "id", "tenant_id", "prefix", "expires_at", "revoked_at", "scopes_json", "addresses_json")
    for digest, key_id, tenant_id, prefix, expires_at, revoked_at, scopes, addresses in _rows(rows, *names):
        if own := limits.get(key_id):
            number = pool.number(_terms(scopes, addresses, own))
        else:
            number = numbers.get((scopes, addresses), -1)
            if number < 0:
                number = numbers[scopes, addresses] = pool.number(_terms(scopes, addresses, ()))
        found[bytes.fromhex(digest)] = pack_key(key_id, tenant_id, prefix, expires_at, revoked_at, number)
    return found


def _own_limits(since: int) -> dict[int, tuple[Limit, ...]]:
    rows = _rows(_changed(ApiKey.objects.filter(_HAS_OWN_LIMITS), since), "id", *LIMIT_FIELDS)
    return {key_id: limits_of(Level.KEY, caps) for key_id, *caps in rows}


def _terms(scopes: str, addresses: str, limits: tuple[Limit, ...]) -> Terms:
    return Terms(frozenset(orjson.loads(scopes)), tuple(orjson.loads(addresses)), limits)


def read_prices(since: int) -> list[tuple[str, PriceRow]]:
    """Prices with their models."""
    found = []
    for one in _changed(Price.objects.all(), since):
        # A price of a million tokens in thousandths is one of a token in billionths.
        nano = [int(p * 1000) for p in (one.input_per_million, one.cached_input_per_million, one.output_per_million)]
        found.append((one.model, PriceRow(one.pk, one.model_version, one.qos_class, one.valid_from, *nano)))
    return found


def _changed(rows: "QuerySet[_M]", since: int) -> "QuerySet[_M]":
    # Without a bound there is nothing to choose, and the index would only lead through the table out of order.
    return (rows if since < 0 else rows.filter(revision__gt=since)).order_by()


def _rows(rows: "QuerySet[Any]", *names: str) -> Iterator[Any]:
    return rows.values_list(*names).iterator(_CHUNK)
