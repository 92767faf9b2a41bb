"""A hot answer near its end is computed anew by one of those who ask; nothing is looked up that must not be."""

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from redis.exceptions import ConnectionError as StoreAway

from caching.entry import Entry, compress
from caching.local import LocalCache
from domain.config import Config
from domain.eviction.named import make_policy
from domain.qos import QosClass
from domain.usage import Usage
from gateway.errors import ApiError
from gateway.kept_answers import KeptAnswers
from gateway.protect import look_up
from gateway.schema import Ask, parse_chat
from gateway.schema.wishes import Wishes
from tenants.snapshot import Caching, Principal

TTL_S = 1000
BODY = b'{"model":"m","messages":[{"role":"user","content":"a"}],"temperature":0}'


class Store:
    """Gives each lease to the first who asks."""

    def __init__(self) -> None:
        self.leases: set[str] = set()
        self.away = False

    async def set(self, name: str, value: str, *, nx: bool, px: int) -> bool | None:
        assert nx
        assert px > 0
        if self.away:
            raise StoreAway
        if name in self.leases:
            return None
        self.leases.add(name)
        return True


class Here:
    """What of a runtime is asked."""

    def __init__(self) -> None:
        self.config, self.gateway_id, self.version = Config(), "g1", "v1"
        self.answers: Any = KeptAnswers.__new__(KeptAnswers)
        self.answers.local = LocalCache(1 << 20, make_policy("lru"), time.monotonic)
        self.store = Store()
        self.ready = SimpleNamespace(redis=self.store)
        self.hot: set[bytes] = set()
        self.banned: set[bytes] = set()
        self.counted: list[bytes] = []
        self.hot_keys = SimpleNamespace(
            count=lambda kind, key, tenant_id, model: self.counted.append(key),
            is_hot=lambda key: key in self.hot,
            is_banned=lambda key: key in self.banned,
        )

    def only_version_of(self, model: str) -> str:
        return self.version

    def hold(self, key: bytes, age_s: float) -> None:
        made_ms = int((time.time() - age_s) * 1000)
        self.answers.local.put(key, Entry(compress(b"{}"), "v1", 1, made_ms, Usage(1, 0, 1)), TTL_S - age_s)


def principal(**caching: Any) -> Principal:
    return Principal(
        *(1, "acme", 1, "abcdefgh", "gold", QosClass.P1, 1.0, (), None, "0" * 32, frozenset(), (), 0),
        caching=Caching(**{"mode": "deterministic", "ttl_s": TTL_S, **caching}),
    )


def asked(body: bytes = BODY, **wishes: Any) -> Ask:
    return replace(parse_chat(body), wishes=Wishes(**wishes))


async def key_of(here: Here) -> bytes:
    found = await look_up(here, principal(), asked())  # type: ignore[arg-type]
    assert found is not None
    return found.key


async def test_what_is_held_is_found_if_it_is_young_enough() -> None:
    here: Any = Here()
    key = await key_of(here)
    here.hold(key, 100)
    found = await look_up(here, principal(), asked())
    assert found is not None
    assert found.held is not None
    assert (found.max_age_ms, found.shares, found.stores) == (TTL_S * 1000, True, True)
    for ask in (asked(max_age_s=99), asked(reads=False)):
        other = await look_up(here, principal(), ask)
        assert other is not None
        assert other.held is None
    shorter = await look_up(here, principal(ttl_s=99), asked())
    assert shorter is not None
    assert shorter.held is None
    assert here.counted == [key] * 5


async def test_a_hot_answer_near_its_end_is_computed_anew_by_one_alone() -> None:
    here: Any = Here()
    key = await key_of(here)
    here.hold(key, 0.95 * TTL_S)
    cold = await look_up(here, principal(), asked())
    assert cold is not None
    assert cold.held is not None
    here.hot.add(key)
    found = [await look_up(here, principal(), asked()) for _ in range(5)]
    assert [one is not None and one.held is None and not one.reads for one in found] == [True] + [False] * 4
    assert all(one is not None and one.stores for one in found)


@pytest.mark.parametrize("age_s", [0, 0.85 * TTL_S])
async def test_a_hot_answer_far_from_its_end_is_given(age_s: float) -> None:
    here: Any = Here()
    key = await key_of(here)
    here.hold(key, age_s)
    here.hot.add(key)
    found = await look_up(here, principal(), asked())
    assert found is not None
    assert found.held is not None
    assert here.store.leases == set()


async def test_nobody_computes_anew_while_the_store_is_away_or_who_wants_a_kept_answer_only() -> None:
    here: Any = Here()
    key = await key_of(here)
    here.hold(key, 0.95 * TTL_S)
    here.hot.add(key)
    kept_only = await look_up(here, principal(), asked(only_kept=True))
    here.store.away = True
    found = await look_up(here, principal(), asked())
    assert kept_only is not None
    assert found is not None
    assert kept_only.held is not None
    assert found.held is not None


async def test_nothing_is_sought_where_nothing_may_be_kept() -> None:
    here: Any = Here()
    key = await key_of(here)
    sampled = BODY.replace(b'"temperature":0', b'"temperature":1')
    assert await look_up(here, principal(mode="off"), asked()) is None
    assert await look_up(here, principal(), asked(sampled)) is None
    here.banned.add(key)
    assert await look_up(here, principal(), asked()) is None
    here.banned.clear()
    here.version = ""  # engines of several versions
    assert await look_up(here, principal(), asked()) is None
    here.version, here.config = "v1", Config(response_cache=False)
    assert await look_up(here, principal(), asked()) is None
    for who in (principal(mode="off"), principal()):
        with pytest.raises(ApiError) as caught:
            await look_up(here, who, asked(only_kept=True))
        assert caught.value.status == 504


async def test_the_name_bears_version_and_tenant() -> None:
    here: Any = Here()
    names = {await key_of(here)}
    here.version = "v2"
    names.add(await key_of(here))
    other = await look_up(here, replace(principal(), cache_salt="1" * 32), asked())
    assert other is not None
    assert len(names | {other.key}) == 3


async def test_runs_are_shared_by_those_of_one_form_and_line_alone() -> None:
    here: Any = Here()
    lookup = await look_up(here, principal(), asked())
    assert lookup is not None
    ask = asked()
    flights = {
        lookup.sought(one, qos_class, tokens).flight
        for one in (ask, replace(ask, stream=True), replace(ask, stream=True, include_usage=True))
        for qos_class in (QosClass.P0, QosClass.P1)
        for tokens in (5, 6)
    }
    assert len(flights) == 12
    unshared = await look_up(here, principal(), asked(reads=False))
    assert unshared is not None
    assert unshared.sought(ask, QosClass.P1, 5).flight == ""
