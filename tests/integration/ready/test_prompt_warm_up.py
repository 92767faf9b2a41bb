"""Warming the engines up for a stored prompt: once, within the budget, and on nobody's account."""

import asyncio
import json
from typing import Any

import msgspec
import pytest
from redis import Redis as SyncRedis

from domain.config import Config
from domain.limits import Level, Span
from domain.outcome import Outcome
from domain.qos import QosClass
from gateway.prompts import warm_up
from gateway.prompts.version import PromptText
from gateway.prompts.warm_up import WarmUp
from gateway.relay import Relay
from tenants.snapshot import Principal
from tests.integration.ready import world
from workers.ready.item import Affinity
from workers.ready.ready_set import ReadySet
from workers.state import WorkerState

SALT = "ab" * 16
LONG = "rules of the house " * 40
AFFINITY = Affinity(0, 8, {})


class Tickets:
    """Notes what arrived."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, QosClass]] = []

    def arrived(self, model: str, qos_class: QosClass, has_room: bool) -> None:
        self.seen.append((model, qos_class))


class Runtime:
    """What a warm-up needs of a gateway process."""

    def __init__(self, ready: ReadySet) -> None:
        self.ready, self.config, self.gateway_id = ready, Config(), "g1"
        self.relays: dict[str, Relay] = {}
        self.tickets = Tickets()
        self.workers = [WorkerState("w1", "m", "simulator", "1.0.0-x", "ready", "", 8, 8, 0, 2048, 0)]

    def find_model(self, name: str) -> str | None:
        return name if name == "m" else None


def caller(tenant_id: int = 7, allowed: frozenset[str] | None = None) -> Principal:
    limits = world.limits(requests_per_day=1, tokens_per_month=1)
    names = ("acme", 9, "sk", "gold", QosClass.P0, 1.0, limits, allowed, SALT, frozenset({"inference"}), (), 0)
    return Principal(tenant_id, *names)


def prompt(content: str = LONG + "{{question}}", number: int = 1, name: str = "0") -> PromptText:
    messages = json.dumps([{"role": "user", "content": content}]).encode()
    return PromptText("prompt_" + name * 26, 7, "", number, msgspec.Raw(messages), ["question"], 0, 0)


@pytest.fixture
def runtime(ready: ReadySet, store: SyncRedis) -> Runtime:
    world.beat(store, "w1", 8)
    return Runtime(ready)


@pytest.fixture
def warming(runtime: Runtime) -> WarmUp:
    made: Any = runtime
    return WarmUp(made)


async def run_next(runtime: Runtime, store: SyncRedis) -> Any:
    """Be the engine: claim what waits, end it, and tell the gateway."""
    while not (found := await world.claim(runtime.ready, "w1", 8, affinity=AFFINITY)).items:
        await asyncio.sleep(0.01)
    (item,) = found.items
    await world.finish(runtime.ready, item.request_id, "w1")
    for event in world.events(store):
        if event[0].decode() in runtime.relays:
            runtime.relays[event[0].decode()].accept(event)
    return item


async def warmed(runtime: Runtime, warming: WarmUp, store: SyncRedis, *args: Any) -> tuple[str, Any]:
    task = asyncio.create_task(warming.prefill(*args, "m"))
    item = await run_next(runtime, store)
    return await task, item


async def test_the_prefix_is_computed_in_the_background_for_its_tenant_alone(
    runtime: Runtime, warming: WarmUp, store: SyncRedis
) -> None:
    what, item = await warmed(runtime, warming, store, caller(), prompt())
    asked = json.loads(item.body)

    assert what == "prefilled"
    assert (item.tenant, item.qos_class, item.cache_salt) == ("acme", QosClass.P2, SALT)
    assert asked["max_tokens"] == 1
    assert asked["messages"][0]["content"] == LONG
    assert runtime.tickets.seen == [("m", QosClass.P2)]
    assert runtime.relays == {}


async def test_it_is_on_nobodys_account_and_still_written_down(
    runtime: Runtime, warming: WarmUp, store: SyncRedis
) -> None:
    """Its tenant has no request left for the day, and notices nothing."""
    await warmed(runtime, warming, store, caller(), prompt())
    (settled,) = world.settlements(store)

    assert (settled["tenant_id"], settled["key_id"], settled["outcome"]) == ("0", "0", "completed")
    assert settled["cost"] == "0"
    for span in (Span.DAY, Span.MONTH):
        assert world.spent(store, Level.TENANT, 7, span) == {}
    assert world.held(store) == {}
    assert world.leftovers(store) == []


async def test_what_an_engine_has_served_is_warm(runtime: Runtime, warming: WarmUp, store: SyncRedis) -> None:
    await warmed(runtime, warming, store, caller(), prompt())

    assert await warming.prefill(caller(), prompt(number=2), "m") == "warm"
    assert len(world.settlements(store)) == 1


async def test_a_version_is_prefilled_once_whatever_becomes_of_it(
    runtime: Runtime, warming: WarmUp, store: SyncRedis
) -> None:
    await warmed(runtime, warming, store, caller(), prompt())
    store.delete("sl:served:w1")

    assert await warming.prefill(caller(), prompt(), "m") == "over_budget"
    assert len(world.settlements(store)) == 1


@pytest.mark.parametrize("bound", ["PER_MINUTE", "PER_TENANT"])
async def test_there_is_a_budget_of_all_and_of_each_tenant(
    runtime: Runtime, warming: WarmUp, store: SyncRedis, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    monkeypatch.setattr(warm_up, bound, 1)
    await warmed(runtime, warming, store, caller(), prompt())
    second = prompt("other " + LONG, name="1")

    assert await warming.prefill(caller(), second, "m") == "over_budget"
    if bound == "PER_TENANT":
        what, _ = await warmed(runtime, warming, store, caller(8), prompt("another " + LONG, name="2"))
        assert what == "prefilled"


async def test_a_short_prefix_is_not_worth_a_run(warming: WarmUp, store: SyncRedis) -> None:
    assert await warming.prefill(caller(), prompt("{{question}}" + LONG), "m") == "short"
    assert store.keys("sl:item:*") == []


@pytest.mark.parametrize(("model", "allowed"), [("unknown", None), ("m", frozenset({"another"}))])
async def test_a_model_that_the_tenant_may_not_ask_is_left_alone(
    warming: WarmUp, store: SyncRedis, model: str, allowed: frozenset[str] | None
) -> None:
    assert await warming.prefill(caller(allowed=allowed), prompt(), model) == "failed"
    assert store.keys("sl:item:*") == []


async def test_a_run_that_failed_is_not_repeated(runtime: Runtime, warming: WarmUp, store: SyncRedis) -> None:
    task = asyncio.create_task(warming.prefill(caller(), prompt(), "m"))
    while not (claimed := await world.claim(runtime.ready, "w1", 8)).items:
        await asyncio.sleep(0.01)
    await world.finish(runtime.ready, claimed.items[0].request_id, "w1", how=world.FAILED)
    runtime.relays[claimed.items[0].request_id].fail(Outcome.FAILED, 502)

    assert await task == "failed"
    assert runtime.relays == {}
    store.delete("sl:served:w1")  # noted when it was claimed
    assert await warming.prefill(caller(), prompt(), "m") == "over_budget"


async def test_a_run_that_lost_its_engine_is_given_up(runtime: Runtime, warming: WarmUp, store: SyncRedis) -> None:
    task = asyncio.create_task(warming.prefill(caller(), prompt(), "m"))
    while not (claimed := await world.claim(runtime.ready, "w1", 8)).items:
        await asyncio.sleep(0.01)
    world.kill(store, "sl:worker:w1")
    world.sweep(store)
    runtime.relays[claimed.items[0].request_id].lose(1, "worker_lost")

    assert await task == "failed"
    (settled,) = world.settlements(store)
    assert settled["outcome"] == "cancelled"
    assert world.leftovers(store) == []
