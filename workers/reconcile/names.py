"""What there is to look at in the store, by tenant."""

from dataclasses import dataclass, field

from redis import Redis

from domain.limits import Level
from tenants.models import ApiKey
from workers.reconcile.account import Account

_SCAN = 2_000


@dataclass(slots=True)
class Names:
    """The names that were there when one looked.

    Attributes:
        accounts: hashes of each tenant and of its keys.
        keys: of each tenant that has slots, those of its keys that have slots too.
        requests: that wait or run.
        days: of which endings have told.
    """

    accounts: dict[int, set[Account]] = field(default_factory=dict)
    keys: dict[int, set[int]] = field(default_factory=dict)
    requests: set[str] = field(default_factory=set)
    days: list[str] = field(default_factory=list)

    @property
    def tenants(self) -> set[int]:
        """All that have something in the store."""
        return self.accounts.keys() | self.keys.keys()


def find_names(store: Redis) -> Names:
    """Go through the store's names.

    Raises:
        redis.exceptions.RedisError, OSError, django.db.DatabaseError: the store or the database is away.
    """
    names = Names()
    of_keys: dict[int, set[Account]] = {}
    slotted: set[int] = set()
    for name in _scan(store, "spent"):
        account = Account.read(name)
        whose = names.accounts if account.level is Level.TENANT else of_keys
        whose.setdefault(account.owner, set()).add(account)
    for name in _scan(store, "slots"):
        level, _, owner = name.partition(":")
        if level == Level.TENANT:
            names.keys.setdefault(int(owner), set())
        else:
            slotted.add(int(owner))
    names.requests = set(_scan(store, "item"))
    names.days = sorted(_scan(store, "made"))
    _add_keys(names, of_keys, slotted)
    return names


def _scan(store: Redis, kind: str) -> list[str]:
    prefix = f"sl:{kind}:"
    return [name.decode().removeprefix(prefix) for name in store.scan_iter(f"{prefix}*", count=_SCAN)]


def _add_keys(names: Names, accounts: dict[int, set[Account]], slotted: set[int]) -> None:
    rows = ApiKey.objects.filter(pk__in=accounts.keys() | slotted).order_by().values_list("pk", "tenant_id")
    for key_id, tenant_id in rows.iterator():
        names.accounts.setdefault(tenant_id, set()).update(accounts.get(key_id, ()))
        if key_id in slotted:
            names.keys.setdefault(tenant_id, set()).add(key_id)
