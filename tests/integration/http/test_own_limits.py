"""GET /v1/limits: what a tenant is told of its limits."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from django.db import OperationalError
from http_face import ASKING_KEY, KEY, NARROW_KEY, Pipeline, key_row, plan, snapshot
from redis import Redis
from redis.asyncio import Redis as AsyncRedis

from domain.limits import Level, Limit
from domain.qos import QosClass
from gateway.runtime import runtime
from gateway.views import limits as view
from tenants.keys import key_digest
from tenants.models import UsageRollup
from tests.stack import free_port
from workers.ready.ready_set import ReadySet

NOW = datetime.now(UTC)
DAY, MONTH = f"d{NOW:%Y%m%d}", f"m{NOW:%Y%m}"


def limits(client: httpx.Client, key: str = NARROW_KEY) -> dict[str, Any]:
    answer = client.get("/v1/limits", headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.fixture
def long_ago(store: Redis) -> None:
    """The store has counted for long."""
    store.set("sl:born", 1)


@pytest.mark.usefixtures("long_ago")
def test_limits_of_tenant_and_key_stand_beside_each_other(client: httpx.Client, store: Redis) -> None:
    store.hset(f"sl:spent:t:2:{DAY}", mapping={"since": 0, "base": 1, "r": 20, "hr": 2})
    store.hset(f"sl:spent:k:2:{DAY}", mapping={"since": 0, "base": 1, "r": 3, "hr": 1})

    told = limits(client)

    tomorrow = (NOW + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    common = {"name": "requests_per_day", "counts": "requests", "per": "day", "known": True}
    common["resets_at"] = int(tomorrow.timestamp())
    assert told["limits"] == [
        {**common, "level": "tenant", "limit": 100, "used": 20, "held": 2, "remaining": 78, "in_force": False},
        {**common, "level": "key", "limit": 5, "used": 3, "held": 1, "remaining": 1, "in_force": True},
    ]  # fmt: skip
    assert (told["tenant"], told["plan"], told["key"]) == ("narrow", "narrow", NARROW_KEY[3:11])
    assert (told["best_class"], told["service_tiers"]) == ("p1", ["default", "flex"])


@pytest.mark.usefixtures("long_ago")
def test_minutes_slots_and_money_are_told_in_their_units(client: httpx.Client, behind: Pipeline, store: Redis) -> None:
    caps = {"requests_per_minute": 60, "max_concurrent": 3, "cost_per_month": 5_000_000_000, "tokens_per_month": 1_000}
    here = runtime()
    here.snapshot.current = snapshot()
    here.snapshot.current.plans[1] = plan(  # type: ignore[index]  # a dictionary of this test's own
        "gold", QosClass.P0, None, *(Limit(Level.TENANT, name, cap) for name, cap in caps.items())
    )
    store.hset("sl:rate:t:1", mapping={"r": 10, "at": store.time()[0] * 1000})
    store.sadd("sl:slots:t:1", "a", "b")
    store.hset(f"sl:spent:t:1:{MONTH}", mapping={"base": 1, "c": 1_000_000_001, "hc": 500_000_000, "i": 600, "o": 500})

    told = {limit["name"]: limit for limit in limits(client, KEY)["limits"]}

    assert told["requests_per_minute"]["per"] == "minute"
    assert 0 < told["requests_per_minute"]["used"] <= 50
    assert (told["max_concurrent"]["used"], told["max_concurrent"]["resets_at"]) == (2, None)
    cost = told["cost_per_month"]
    assert (cost["limit"], cost["used"], cost["held"], cost["remaining"]) == (
        "5.00",
        "1.000000001",
        "0.50",
        "3.499999999",
    )
    assert (told["tokens_per_month"]["used"], told["tokens_per_month"]["remaining"]) == (1_100, 0)


@pytest.mark.usefixtures("long_ago")
def test_waits_are_told_for_the_classes_and_models_of_the_caller(client: httpx.Client, store: Redis) -> None:
    model = runtime().config.model_name
    store.zadd(f"sl:ready:{model}:p1", {"a": 1, "b": 2})
    store.rpush(f"sl:waits:{model}:p1", *range(100, 0, -1))

    told = limits(client, KEY)

    assert told["models"] == [model, "org/another-model"]
    assert [queue["class"] for queue in told["queues"]] == ["p0", "p1", "p2"] * 2
    assert told["queues"][1] == {
        "model": model,
        "class": "p1",
        "service_tier": "default",
        "waiting": 2,
        "sample": 100,
        "median_wait_ms": 50,
        "p95_wait_ms": 95,
    }
    assert told["queues"][0]["median_wait_ms"] is None


@pytest.mark.django_db(transaction=True)
def test_a_store_that_began_anew_is_completed_from_the_database(client: httpx.Client, store: Redis) -> None:
    midnight = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
    for period in "dh":
        UsageRollup.objects.create(
            period=period, starts_at=midnight, tenant_id=2, key_id=2, model="m", qos_class="p1", requests=4
        )
    store.set("sl:born", store.time()[0] * 1000)
    store.hset(f"sl:spent:t:2:{DAY}", mapping={"since": store.time()[0] * 1000, "r": 1})

    told = [(limit["level"], limit["used"], limit["known"]) for limit in limits(client)["limits"]]

    assert told == [("tenant", 5, True), ("key", 4, True)]


@pytest.mark.django_db(transaction=True)
def test_while_the_database_is_away_too_the_limits_say_that_they_are_not_known(
    client: httpx.Client, store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("no route")

    monkeypatch.setattr(view, "complete_limits", away)

    assert {limit["known"] for limit in limits(client)["limits"]} == {False}


def test_a_key_without_the_scope_reads_no_limits(client: httpx.Client) -> None:
    for path in ("/v1/limits", "/v1/usage"):
        answer = client.get(path, headers={"authorization": f"Bearer {ASKING_KEY}"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "insufficient_scope")
        assert "Missing scopes: usage" in answer.json()["error"]["message"]


def test_without_the_store_it_is_503(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = AsyncRedis.from_url(f"redis://127.0.0.1:{free_port()}")
    monkeypatch.setattr(runtime(), "ready", ReadySet(nowhere), raising=False)

    answer = client.get("/v1/limits")

    assert (answer.status_code, answer.json()["error"]["reason"]) == (503, "store_unavailable")
    assert int(answer.headers["retry-after"]) >= 1


def test_a_limit_of_the_key_alone_is_told(client: httpx.Client, behind: Pipeline, store: Redis) -> None:
    here = runtime()
    limited = key_row(KEY, 1, limits=(Limit(Level.KEY, "max_concurrent", 2),))
    here.snapshot.current = snapshot()
    here.snapshot.current.keys[key_digest(KEY)] = limited  # type: ignore[index]  # a dictionary of this test's own
    store.sadd("sl:slots:k:1", "a")

    assert [(one["level"], one["used"], one["limit"]) for one in limits(client, KEY)["limits"]] == [("key", 1, 2)]
