"""Plans, tenants and keys as a snapshot holds them.

Of tenants and keys there may be hundreds of thousands, in every gateway process. So each is kept as a string of bytes,
a fifth of what a tuple of objects takes, and one that the garbage collector never looks at; a row is made of it
whenever it is asked for.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Generic, NamedTuple, TypeVar

from domain.limits import Limit
from domain.qos import QosClass

K = TypeVar("K")
Row = TypeVar("Row")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = -(2**63)
_KEY = struct.Struct("<qqqqI")
_TENANT = struct.Struct("<q?B")


class Caching(NamedTuple):
    """What a plan says about kept answers; names and units as in :class:`~tenants.models.Plan`."""

    mode: str = "off"
    ttl_s: int = 3600
    price_percent: int = 0
    max_stale_s: int = 0


COMPUTES_ALL = Caching()
"""Keeps nothing."""


class PlanRow(NamedTuple):
    """A plan as read; names and units as in :class:`~tenants.models.Plan`."""

    name: str
    best_class: QosClass
    weight: float
    limits: tuple[Limit, ...]
    allowed_models: frozenset[str] | None
    shares_cache: bool
    retention_hours: int
    caching: Caching = COMPUTES_ALL
    soft_limits: tuple[Limit, ...] = ()


class TenantRow(NamedTuple):
    """A tenant as read."""

    slug: str
    plan_id: int
    active: bool
    cache_salt: str

    def pack(self) -> bytes:
        """Put it into bytes."""
        salt = self.cache_salt.encode()
        return _TENANT.pack(self.plan_id, self.active, len(salt)) + salt + self.slug.encode()

    @classmethod
    def unpack(cls, packed: bytes) -> "TenantRow":
        """Read what :meth:`pack` made."""
        plan_id, active, length = _TENANT.unpack_from(packed)
        salt_end = _TENANT.size + length
        return cls(packed[salt_end:].decode(), plan_id, active, packed[_TENANT.size : salt_end].decode())


class Terms(NamedTuple):
    """What a key may do; most keys have the same."""

    scopes: frozenset[str]
    allowed_addresses: tuple[str, ...]
    limits: tuple[Limit, ...]


class KeyRow(NamedTuple):
    """A key as read."""

    key_id: int
    tenant_id: int
    prefix: str
    expires_at: datetime | None
    revoked_at: datetime | None
    scopes: frozenset[str]
    allowed_addresses: tuple[str, ...]
    limits: tuple[Limit, ...]


class TermsPool:
    """Each of the terms once; keys hold its number. It only grows, so a snapshot and those that follow it share it."""

    def __init__(self) -> None:
        self._numbers: dict[Terms, int] = {}
        self._terms: list[Terms] = []

    def number(self, terms: Terms) -> int:
        """The number of these terms, a new one if nobody had them."""
        found = self._numbers.get(terms)
        if found is None:
            found = self._numbers[terms] = len(self._terms)
            self._terms.append(terms)
        return found

    def unpack(self, packed: bytes) -> KeyRow:
        """Read a key that :func:`pack_key` packed with a number of this pool."""
        key_id, tenant_id, expires, revoked, number = _KEY.unpack_from(packed)
        prefix = packed[_KEY.size :].decode()
        return KeyRow(key_id, tenant_id, prefix, _moment(expires), _moment(revoked), *self._terms[number])


def pack_key(
    key_id: int, tenant_id: int, prefix: str, expires_at: datetime | None, revoked_at: datetime | None, terms: int
) -> bytes:
    """Put a key into bytes; ``terms`` is their number in the pool that will unpack it."""
    return _KEY.pack(key_id, tenant_id, _microseconds(expires_at), _microseconds(revoked_at), terms) + prefix.encode()


def _microseconds(moment: datetime | None) -> int:
    return _NEVER if moment is None else (moment - _EPOCH) // _MICROSECOND


def _moment(microseconds: int) -> datetime | None:
    return None if microseconds == _NEVER else _EPOCH + timedelta(microseconds=microseconds)


class PackedTable(Mapping[K, Row], Generic[K, Row]):
    """Rows by their key, each packed into bytes; never altered once made."""

    def __init__(self, packed: dict[K, bytes], unpack: Callable[[bytes], Row]) -> None:
        self._packed, self._unpack = packed, unpack

    def with_changes(self, changed: dict[K, bytes]) -> "PackedTable[K, Row]":
        """The same with these rows added or replaced; itself if there are none."""
        return PackedTable({**self._packed, **changed}, self._unpack) if changed else self

    def changed_from(self, older: "PackedTable[K, Row]") -> list[K]:
        """Keys of ``older`` whose rows are others here, or are gone."""
        return [key for key, packed in older._packed.items() if self._packed.get(key) != packed]

    def __getitem__(self, key: K) -> Row:
        return self._unpack(self._packed[key])

    def __iter__(self) -> Iterator[K]:
        return iter(self._packed)

    def __len__(self) -> int:
        return len(self._packed)
