"""The store's books: what it has counted, as of one moment."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from redis import Redis

from domain.limits import KINDS, Level, Span
from tenants.usage import UsageRow
from workers.ready import scripts
from workers.reconcile.account import Account
from workers.settlement.entry import usage_row
from workers.settlement.ledger import SET_ASIDE, STREAM

MAX_WAITING = 50_000
"""Settlements that a reconciliation reads at most; with more, the ledger has to catch up first."""

_SPANS = {kind.code: kind.span for kind in KINDS.values()}
_HELD = ("hr", "hi", "ho", "hc")


class Behind(Exception):
    """Too many settlements wait for their rows."""


@dataclass(slots=True)
class TenantBooks:
    """One tenant's.

    Attributes:
        strays: slots whose request is gone: level and owner such as ``t:1``, and the request.
        live: requests that wait or run.
        spent: fields of each hash that was asked for; empty where there is none.
        held: what the live requests have reserved, by hash and field.
    """

    strays: list[tuple[str, str]] = field(default_factory=list)
    live: set[str] = field(default_factory=set)
    spent: dict[Account, dict[str, int]] = field(default_factory=dict)
    held: dict[Account, dict[str, int]] = field(default_factory=dict)


@dataclass(slots=True)
class Books:
    """What the store knows at one moment.

    Attributes:
        at: the moment, to the millisecond, by the store's clock.
        born_ms: when this store began; None before it has admitted anything.
        waiting: settlements that have no row yet, or had none when they were read.
        set_aside: those of which the ledger could make none; ``unreadable`` more of them that cannot even be read.
        made: fields of the days' hashes that were asked for.
        tenants: by id.
    """

    at: datetime
    born_ms: int | None
    waiting: list[UsageRow]
    set_aside: list[UsageRow]
    unreadable: int
    made: dict[str, dict[str, int]]
    tenants: dict[int, TenantBooks]


class Asked(NamedTuple):
    """What is read of one tenant: its hashes, its keys' hashes, and its keys that have slots."""

    accounts: tuple[Account, ...]
    keys: tuple[int, ...]


def read_books(store: Redis, asked: dict[int, Asked], days: Collection[str] = ()) -> Books:
    """Read everything at one moment.

    Args:
        store: the store of the ready sets.
        asked: what to read, by tenant.
        days: such as ``20261130``: what the endings of that day have told.

    Raises:
        Behind: more than ``MAX_WAITING`` settlements wait.
        redis.exceptions.RedisError, OSError: the store does not answer.
    """
    look = store.register_script(scripts.source("look"))
    with store.pipeline(transaction=True) as pipeline:
        pipeline.time()
        pipeline.get("sl:born")
        pipeline.xrange(STREAM, count=MAX_WAITING + 1)
        pipeline.xrange(SET_ASIDE, count=MAX_WAITING + 1)
        for day in days:
            pipeline.hgetall(f"sl:made:{day}")
        for tenant_id, (accounts, keys) in asked.items():
            look(args=[tenant_id, len(keys), *keys, *(one.name for one in accounts)], client=pipeline)
        (seconds, microseconds), born, waiting, aside, *rest = pipeline.execute()
    if len(waiting) > MAX_WAITING or len(aside) > MAX_WAITING:
        raise Behind(f"More than {MAX_WAITING} settlements wait for their rows. Let the settlement worker catch up.")
    made, tenants = rest[: len(days)], rest[len(days) :]
    set_aside = _rows(aside)
    return Books(
        datetime.fromtimestamp(int(seconds), UTC).replace(microsecond=int(microseconds) // 1000 * 1000),
        int(born) if born else None,
        _rows(waiting),
        set_aside,
        len(aside) - len(set_aside),
        {day: _numbers(found.items()) for day, found in zip(days, made, strict=True)},
        {
            tenant_id: _tenant(tenant_id, one.accounts, found)
            for (tenant_id, one), found in zip(asked.items(), tenants, strict=True)
        },
    )


def _rows(entries: Iterable[tuple[bytes, dict[bytes, bytes]]]) -> list[UsageRow]:
    rows = []
    for _, fields in entries:
        try:
            rows.append(usage_row(fields))
        except (KeyError, ValueError):
            continue  # the ledger sets it aside, and says so
    return rows


def _numbers(fields: Iterable[tuple[bytes, bytes]]) -> dict[str, int]:
    return {name.decode(): int(value) for name, value in fields}


def _tenant(tenant_id: int, accounts: Sequence[Account], found: Any) -> TenantBooks:
    strays, live, hashes = found
    books = TenantBooks()
    books.strays = [(name.decode(), rid.decode()) for name, rid in zip(strays[::2], strays[1::2], strict=True)]
    for account, flat in zip(accounts, hashes, strict=True):
        books.spent[account] = _numbers(zip(flat[::2], flat[1::2], strict=True))
    for rid, key, day, month, *reserved, limits, t_admit in live:
        books.live.add(rid.decode())
        amounts = dict(zip(_HELD, (1, *(int(one or 0) for one in reserved)), strict=True))
        for account in _held_at(tenant_id, int(key), day, month, limits):
            if int(t_admit) >= books.spent.get(account, {}).get("made", 0):  # else it was held in an earlier hash
                sums = books.held.setdefault(account, dict.fromkeys(_HELD, 0))
                for name, amount in amounts.items():
                    sums[name] += amount
    return books


def _held_at(tenant_id: int, key_id: int, day: bytes, month: bytes, limits: bytes) -> list[Account]:
    at = [Account(Level.TENANT, tenant_id, period.decode()) for period in (day, month)]
    of_key = {_SPANS.get(code) for level, code, *_ in msgspec.msgpack.decode(limits) if level == Level.KEY}
    for span, period in ((Span.DAY, day), (Span.MONTH, month)):
        if span in of_key:
            at.append(Account(Level.KEY, key_id, period.decode()))
    return at
