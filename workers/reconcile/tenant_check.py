"""Tenants: what the store has counted for them, against the database and against their live requests."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from redis import Redis

from domain.limits import Level
from tenants.one_moment import one_moment
from workers.reconcile.account import Account, accounts_at
from workers.reconcile.difference import Check
from workers.reconcile.facts import Facts
from workers.reconcile.names import Names
from workers.reconcile.seen import Seen
from workers.reconcile.store_books import Asked, TenantBooks, read_books

DAY_MS, MONTH_MS = 3 * 86_400_000, 40 * 86_400_000
"""For how long a day's and a month's sums are kept, as ``lib.lua`` keeps them."""

_HELD = ("hr", "hi", "ho", "hc")


def look_at_tenants(store: Redis, tenant_ids: Sequence[int], names: Names, slugs: Mapping[int, str]) -> Iterator[Seen]:
    """Read the books of some tenants at one moment, and find what differs in them.

    Args:
        store: the store of the ready sets.
        tenant_ids: whose.
        names: what the store holds of them.
        slugs: their short names, for those who read the report.

    Raises:
        workers.reconcile.store_books.Behind: too many settlements wait for their rows.
    """
    seconds, _ = store.time()
    moment = datetime.fromtimestamp(int(seconds), UTC)
    books = read_books(store, {tenant_id: _asked(tenant_id, names, moment) for tenant_id in tenant_ids})
    with one_moment():
        facts = Facts(books)
        for tenant_id, of_tenant in books.tenants.items():
            who = slugs.get(tenant_id) or str(tenant_id)
            for slots, request_id in of_tenant.strays:
                yield Seen(Check.SLOTS, who, slots, slots, request_id, 0, 1)
            for account, fields in of_tenant.spent.items():
                yield from _compare(who, account, fields, of_tenant, facts)


def _asked(tenant_id: int, names: Names, moment: datetime) -> Asked:
    accounts = names.accounts.get(tenant_id, set()) | set(accounts_at(Level.TENANT, tenant_id, moment))
    return Asked(tuple(sorted(accounts)), tuple(sorted(names.keys.get(tenant_id, ()))))


def _compare(who: str, account: Account, fields: Mapping[str, int], books: TenantBooks, facts: Facts) -> Iterator[Seen]:
    if not fields and not facts.knows_all(account):
        return  # the store asks the database for it before it admits the next request
    known = not fields or fields.get("base") == 1
    held = books.held.get(account, {})
    right = {Check.HELD: {name: held.get(name, 0) for name in _HELD}}
    spent = facts.spent(account, None if known else fields["since"])
    if spent is not None:
        right[Check.SPENT] = spent
    for check, figures in right.items():
        for name, expected in figures.items():
            found = fields.get(name, 0)
            if found != expected:
                yield Seen(
                    check,
                    who if account.level is Level.TENANT else f"{who} key {account.owner}",
                    account.period,
                    f"sl:spent:{account.name}",
                    name,
                    expected,
                    found,
                    str(fields["since"]) if fields else "",
                    str(int(account.start.timestamp() * 1000)),
                    MONTH_MS if account.is_month else DAY_MS,
                )
