"""Making the whitelist: one gateway at a time adds up what all have counted, and writes the list for all."""

import asyncio
from datetime import UTC, datetime
from functools import partial

from caching.hot.hot_list import HotList
from caching.hot.hot_store import HotStore, Look, number_of
from caching.hot.ranking import HotRow, rank
from caching.hot.sketch_ring import WINDOW_S, WINDOWS, merge
from gateway.database import Database
from gateway.errors import ApiError
from tenants.hot_keys import Listed, key_text, read_listed, record_found
from tenants.models import HotKey
from tracing import logs

log = logs.get(__name__)

_NOBODY = 0
"""As this the database is asked, beside its tenants."""
_LATE_S = 2.0
"""Time that gateways are given to hand in a window that is over."""


class HotLeader:
    """Its work is done by whoever holds the lease."""

    def __init__(self, store: HotStore, database: Database, places: int) -> None:
        self._store = store
        self._database = database
        self._places = places
        self._done = -1
        self._asked: bytes | None = None
        self._rows: list[HotRow] | None = None

    async def work(self, now_s: float, seen: Look, held: HotList) -> Look:
        """Make the list anew if a window is over, operators have asked for it, or the store has lost it.

        Args:
            now_s: seconds since 1970.
            seen: how the list stands in the store.
            held: the list that this process holds.

        Returns:
            How it stands now.

        Raises:
            redis.exceptions.RedisError, OSError: the store does not answer.
        """
        number = int((now_s - _LATE_S) // WINDOW_S)
        is_new_window = number != self._done
        if not is_new_window and seen.version and seen.asked == self._asked:
            return seen
        if is_new_window:
            self._rows = await self._rank(number - 1, is_lost=not seen.version)
        made = await self._make(now_s, held)
        if made.version != seen.version:
            await self._store.write_list(made)
        self._done, self._asked = number, seen.asked
        return Look(made.version, seen.asked)

    async def _rank(self, latest: int, is_lost: bool) -> list[HotRow] | None:
        """The top of the windows up to ``latest``; None while the store has forgotten what it knew: the rows stay."""
        names = await self._store.window_names(latest - WINDOWS + 1)
        if is_lost and not names:
            return self._rows
        # A window that is just over is complete at the next time.
        windows = await self._store.read_windows([name for name in names if number_of(name) <= latest])
        return await asyncio.to_thread(self._add_up, windows, latest)

    def _add_up(self, windows: list[tuple[int, bytes]], latest: int) -> list[HotRow]:
        return rank(merge(windows), self._places, latest, WINDOW_S)

    async def _make(self, now_s: float, held: HotList) -> HotList:
        now = datetime.fromtimestamp(now_s, UTC)
        try:
            listed = await self._database.ask(_NOBODY, partial(_record, self._rows, self._places, now))
        except ApiError:  # it has said so itself; what operators have set stays as it is known
            hot = held.hot if self._rows is None else frozenset(row.key for row in self._rows)
            return HotList(hot, held.pinned, held.banned)
        return HotList(listed.hot, listed.pinned, listed.banned)


def _record(rows: list[HotRow] | None, places: int, now: datetime) -> Listed:
    if rows is not None:
        record_found([_row(row) for row in rows], now)
    return read_listed(places, now)


def _row(row: HotRow) -> HotKey:
    return HotKey(
        kind=row.kind,
        key=key_text(row.kind, row.key),
        tenant_id=row.tenant_id,
        model=row.model[:200],
        rate_per_minute=row.rate_per_minute,
        trend=row.trend,
        last_seen_at=datetime.fromtimestamp(row.seen_s, UTC),
    )
