"""A figure that differs, as one look found it."""

import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from redis import Redis

from workers.ready import scripts
from workers.reconcile.difference import Check, Difference

LOOKS = 3
PAUSE_S = 0.1


class Seen(NamedTuple):
    """One figure that differs, and what it takes to put it right.

    Attributes:
        check: what was compared; ``who`` and ``where`` for those who read it.
        key: the hash in the store; of slots their name, such as ``t:1``.
        field: the figure; of slots the request.
        expected: what it must be; ``found`` what it is.
        since: when the hash began, "" if there is none: then it is to begin at ``begin`` and to be kept ``keep_ms``.
    """

    check: Check
    who: str
    where: str
    key: str
    field: str
    expected: int
    found: int
    since: str = ""
    begin: str = ""
    keep_ms: int = 0

    @property
    def figure(self) -> tuple[Check, str, str]:
        """Which figure it is."""
        return self.check, self.key, self.field

    def told(self, repaired: bool) -> Difference:
        """The same for a report."""
        return Difference(self.check, self.who, self.where, self.field, self.expected, self.found, repaired)


Look = Callable[[], Iterable[Seen]]


def standing(look: Look) -> list[Seen]:
    """What differs by the same amount each time one looks; what is on its way only seems to differ."""
    seen: dict[tuple[object, int], Seen] = {}
    for turn in range(LOOKS):
        if turn:
            time.sleep(PAUSE_S)
        now = {(one.figure, one.expected - one.found): one for one in look()}
        seen = {identity: one for identity, one in now.items() if not turn or identity in seen}
        if not seen:
            break
    return list(seen.values())


class Mender:
    """Puts figures of the store right by what they lack."""

    def __init__(self, store: Redis) -> None:
        self._store = store
        self._put_right = store.register_script(scripts.source("put_right"))
        self._put_slot = store.register_script(scripts.source("put_right_slot"))

    def settle(self, look: Look, repair: bool) -> list[Difference]:
        """Find what differs, repair it if so asked, and look again whether that helped."""
        found = standing(look)
        if not found or not repair:
            return [one.told(repaired=False) for one in found]
        for one in found:
            self._mend(one)
        left = {one.figure for one in standing(look)}
        return [one.told(one.figure not in left) for one in found]

    def _mend(self, one: Seen) -> None:
        if one.check is Check.SLOTS:
            self._put_slot(args=[one.key, one.field])
            return
        since = one.since
        if not since:  # the first figure of a hash that was missing has begun it; the others find it
            begun = self._store.hget(one.key, "since")
            since = begun.decode() if isinstance(begun, bytes) else ""
        self._put_right(args=[one.key, since, one.begin, one.keep_ms, one.field, one.expected - one.found])
