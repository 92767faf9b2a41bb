"""Adjustments: credits and extra charges by hand, counted against the budgets at once."""

import logging
from datetime import date
from typing import Any

from django.conf import settings
from django.db import transaction
from redis import Redis
from redis.exceptions import RedisError

from tenants.models import Adjustment, Tenant

log = logging.getLogger(__name__)

_TIMEOUT_S = 1.0
_MARK_MS = 400 * 86_400_000


def make_adjustment(
    tenant: Tenant, month: date, cost_nano: int, tokens: int, reason: str, user: Any, store: Redis | None = None
) -> Adjustment:
    """Write an adjustment; once it is committed, the store counts it as well.

    A store that is away is put right by the next reconciliation.

    Args:
        tenant: whose.
        month: any day of it.
        cost_nano: billionths of the currency's unit; less than 0 for a credit, as are ``tokens``.
        tokens: counted against the month's tokens.
        reason: for those who read the books.
        user: who makes it; None for nobody.
        store: the store of the ready sets; None for that of the settings.

    Raises:
        ValueError: it changes nothing, or gives no reason.
        django.db.DatabaseError: it could not be written.
    """
    if not (cost_nano or tokens):
        raise ValueError("An adjustment changes the cost or the tokens: set one of them.")
    if not reason.strip():
        raise ValueError("An adjustment gives its reason.")
    with transaction.atomic():
        made = Adjustment.objects.create(
            tenant=tenant,
            month=month.replace(day=1),
            cost_nano=cost_nano,
            tokens=tokens,
            reason=reason.strip(),
            made_by=user,
            made_by_name=user.get_username() if user else "",
        )
        transaction.on_commit(lambda: _count(made, store))
    return made


def _count(made: Adjustment, store: Redis | None) -> None:
    try:
        if store is None:
            with Redis.from_url(
                settings.SLUICE.ready_url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
            ) as own:
                _add(own, made)
        else:
            _add(store, made)
    except (RedisError, OSError) as error:
        log.warning("An adjustment is not counted against the budget until the next reconciliation: %s", error)


def _add(store: Redis, made: Adjustment) -> None:
    period = f"t:{made.tenant_id}:m{made.month:%Y%m}"
    key = f"sl:spent:{period}"

    def add(pipeline: Any) -> None:
        # Without a base the store has yet to read from the database what it did not see itself, this among it.
        exists, known = pipeline.exists(key), pipeline.hget(key, "base") == b"1"
        pipeline.multi()
        if known:
            pipeline.hincrby(key, "c", made.cost_nano)
            pipeline.hincrby(key, "a", made.tokens)
        elif not exists:
            # Nobody asked for anything in that month yet: whoever begins to count it has to ask the database.
            pipeline.set(f"sl:adjusted:{period}", 1, px=_MARK_MS)

    store.transaction(add, key)
