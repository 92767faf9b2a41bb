"""What exists, as the store knows it: generations of one filter, each a packed filter and the deltas since.

Every step is one script. All times are the store's, in ms of the epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from caching.filters.digest import Digester
from caching.filters.existence import Existence
from domain.filter_size import FilterSize

ADD_WITHIN_MS = 2_000
"""From the announcement of an item to its addition at most; see :mod:`caching.filters.replica`."""

CLOCKS_MS = 10_000
"""More than the clocks of two stores, of which one takes the other's place, may differ by."""

PIECE_BYTES = 128 * 1024
"""Of a packed filter that one call moves."""

MAX_DELTAS = 1_000
"""That one call returns."""

_LUA = Path(__file__).parent / "lua"
_NAMES = ("now", "add", "was_added", "poll", "begin", "fill", "complete", "give_up", "ask")


_ADDED = {1: Existence.MAYBE, 0: Existence.NO, -1: Existence.UNKNOWN}


class AnnouncedTooLongAgo(RedisError):
    """The item must be announced anew: it was to be added more than ``ADD_WITHIN_MS`` after its announcement."""


@dataclass(frozen=True, slots=True)
class Generation:
    """A complete generation.

    Attributes:
        begun_ms: what was added from then on is in its deltas.
        seq: of its last delta; the first is 1.
        size: of the packed filter.
        items: in the packed filter.
        packed_bytes: how long it is.
        check: BLAKE3 of it, hexadecimal.
    """

    name: str
    begun_ms: int
    seq: int
    library: str
    size: FilterSize
    items: int
    packed_bytes: int
    check: str


@dataclass(frozen=True, slots=True)
class Poll:
    """What the store knew at ``now_ms``.

    Attributes:
        asked: how many rebuilds were asked for that have not begun.
        generation: None if there is no complete one.
        deltas: sequence number and digest, in order, of the generation that was asked about.
    """

    now_ms: int
    asked: int
    generation: Generation | None
    deltas: Sequence[tuple[int, bytes]]


class FilterTruth:
    """The truth of the filter ``name``. Every method is one round trip.

    Raises (all methods): ``redis.exceptions.RedisError`` or ``OSError`` when the store does not answer.
    """

    def __init__(self, redis: Redis, name: str) -> None:
        self.name, self.digest = name, Digester(name)
        self._redis = redis
        self._scripts = {script: redis.register_script(_source(script)) for script in _NAMES}

    async def now_ms(self) -> int:
        """The store's time, for an item that is about to be made."""
        return int(await self._run("now"))

    async def add(self, item: bytes, made_at_ms: int) -> int:
        """Note that an item exists, before it does: in all generations that there are.

        Args:
            item: what names it.
            made_at_ms: from :meth:`now_ms`, at most ``ADD_WITHIN_MS`` ago.

        Returns:
            The store's time.

        Raises:
            AnnouncedTooLongAgo: it must not come into being; announce another one.
        """
        now_ms, added = await self._run("add", made_at_ms, ADD_WITHIN_MS, self.digest(item))
        if not added:
            raise AnnouncedTooLongAgo("announced too long ago, or not by this store")
        return int(now_ms)

    async def was_added(self, item: bytes, made_at_ms: int) -> Existence:
        """Ask the store itself about an item that is too young for the copies to know of.

        NO is proof: whoever may know of an item can do so only after it was added. MAYBE if it was added; UNKNOWN for
        what is as old as the generation or older, and while there is none.

        Args:
            item: what names it.
            made_at_ms: when it was announced, by the store's clock, as it says itself.
        """
        return _ADDED[int(await self._run("was_added", made_at_ms, CLOCKS_MS, self.digest(item)))]

    async def poll(self, generation: str, seq: int) -> Poll:
        """Ask for what is new since delta ``seq`` of ``generation``; ("", 0) for whoever knows none."""
        reply = await self._run("poll", generation, seq, MAX_DELTAS)
        if len(reply) == 2:
            return Poll(int(reply[0]), int(reply[1]), None, ())
        now_ms, asked, name, facts, flat = reply
        deltas = [(int(flat[i]), flat[i + 1]) for i in range(0, len(flat), 2)]
        return Poll(int(now_ms), int(asked), _generation(name.decode(), facts), deltas)

    async def piece(self, generation: str, offset: int) -> bytes:
        """``PIECE_BYTES`` of a packed filter, less at its end; nothing if the generation is gone."""
        end = offset + PIECE_BYTES - 1
        piece: bytes = await self._redis.getrange(f"sl:filter:{self.name}:{generation}:bits", offset, end)  # type: ignore[assignment]  # bytes: nothing is decoded
        return piece

    async def begin(self, owner: str, lease_ms: int, generation: str, library: str, size: FilterSize) -> bool:
        """Begin a generation, whose deltas are kept from now on; False while another owner rebuilds."""
        return bool(await self._run("begin", owner, lease_ms, generation, library, size.bits, size.hashes))

    async def fill(self, owner: str, lease_ms: int, generation: str, offset: int = 0, piece: bytes = b"") -> bool:
        """Write a piece of the packed filter, or only say that this owner is at work; False if it may not go on."""
        return bool(await self._run("fill", owner, lease_ms, generation, offset, piece))

    async def complete(self, owner: str, generation: str, items: int, packed_bytes: int, check: str) -> bool:
        """Make a filled generation the current one; False if this owner lost its turn."""
        return bool(await self._run("complete", owner, generation, items, packed_bytes, check))

    async def give_up(self, owner: str) -> None:
        """End this owner's turn, if it still has it."""
        await self._run("give_up", owner)

    async def ask_rebuild(self) -> None:
        """Ask for a new generation that begins after now, so that what was removed leaves the truth."""
        await self._run("ask")

    async def _run(self, script: str, *arguments: Any) -> Any:
        return await self._scripts[script](args=[self.name, *arguments])


def _generation(name: str, facts: Sequence[Any]) -> Generation:
    begun_ms, seq, library, bits, hashes, items, packed_bytes, check = facts
    return Generation(
        name=name,
        begun_ms=int(begun_ms),
        seq=int(seq),
        library=library.decode(),
        size=FilterSize(int(bits), int(hashes)),
        items=int(items),
        packed_bytes=int(packed_bytes),
        check=check.decode(),
    )


@cache
def _source(script: str) -> str:
    return f"{(_LUA / 'lib.lua').read_text()}\n{(_LUA / f'{script}.lua').read_text()}"
