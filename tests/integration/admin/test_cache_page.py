"""The page "Cache": what gateways told is shown, and what an operator fixes is in the store and in the records."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from redis import Redis

from gateway.cache_tuning import DECISIONS, FIXED, HISTORY, STATE
from gateway_admin.models import OperatorAction

TOLD: dict[str, Any] = {
    "policy": "lru-3",
    "mode": "w11",
    "fixed": False,
    "paused": False,
    "watermark": 0.8,
    "watermark_from": "prometheus",
    "hit_rate": 0.3,
    "ceiling": 0.4,
    "bytes": 48_000_000,
    "max_bytes": 64_000_000,
    "entries": 12_000,
    "evictions": 77,
    "ghosts": {"lru": 0.25, "lru-2": 0.3, "lru-3": 0.28, "lru-5": 0.26, "arc": 0.29, "mq": 0.31},
    "ghost_ceiling": 0.4,
    "best_possible": 0.36,
    "sampled": 4_000,
    "answers": {"hit_local": 300, "hit_store": 50, "coalesced": 10, "stale": 1, "miss": 639},
    "filter_fill": 0.21,
    "at": 1_900_000_000.0,
}


def add_gateway(store: "Redis", name: str, **fields: Any) -> None:
    store.sadd("sl:gateways", name)
    told = {**TOLD, **fields}
    store.hset(f"{STATE}{name}", mapping={field: json.dumps(value) for field, value in told.items()})


def add(store: "Redis", stream: str, **fields: Any) -> None:
    store.xadd(stream, {"m": json.dumps(fields)})


def ask(client: Client) -> dict[str, Any]:
    answer = client.get(reverse("cache-state"))
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def confirm(client: Client, choice: str, seen: str = "", reason: str = "") -> Any:
    return client.post(reverse("cache-fix"), {"choice": choice, "seen": seen, "reason": reason})


@pytest.fixture
def staff(db: None) -> User:
    return User.objects.create_user("anna", is_staff=True)


def test_an_empty_store_shows_nothing_and_no_error(admin_client: Client, valkey: "Redis") -> None:
    state = ask(admin_client)

    assert (state["gateways"], state["decisions"], state["history"], state["store"]) == ([], [], [], None)
    assert (state["fixed"], state["error"], state["setting"]) == ("", "", "w11")
    page = admin_client.get(reverse("cache"))
    assert page.status_code == 200
    assert "No gateway tells of kept answers yet" in page.text


def test_gateways_that_live_are_shown_as_they_told(admin_client: Client, valkey: "Redis") -> None:
    add_gateway(valkey, "gateway-1")
    valkey.sadd("sl:gateways", "dead")

    assert ask(admin_client)["gateways"] == [{"id": "gateway-1", **TOLD}]


def test_decisions_come_the_latest_first_and_minutes_are_means(admin_client: Client, valkey: "Redis") -> None:
    for number, why in enumerate(("watermark", "ghosts")):
        add(valkey, DECISIONS, gateway="gateway-1", at=100.0 + number, before="lru-2", after="mq", why=why)
    shares = {"ceiling": 0.5, "watermark": None}
    add(valkey, HISTORY, gateway="gateway-1", at=60.5, policy="mq", hit_rate=0.2, **shares)
    add(valkey, HISTORY, gateway="gateway-2", at=62.0, policy="arc", hit_rate=0.4, **shares)
    add(valkey, HISTORY, gateway="gateway-1", at=121.0, policy="mq", hit_rate=None, **shares)

    state = ask(admin_client)

    assert [decision["why"] for decision in state["decisions"]] == ["ghosts", "watermark"]
    assert state["history"] == [
        {"at": 60, "policies": ["arc", "mq"], "hit_rate": 0.3, "ceiling": 0.5, "watermark": None},
        {"at": 120, "policies": ["mq"], "hit_rate": None, "ceiling": 0.5, "watermark": None},
    ]


def test_the_second_level_is_shown_once_something_was_kept(admin_client: Client, valkey: "Redis") -> None:
    valkey.hset("sl:answers", mapping={"once": 5, "once_bytes": 500, "more": 2, "more_bytes": 200, "evicted": 1})

    assert ask(admin_client)["store"] == {
        "once": 5,
        "more": 2,
        "once_bytes": 500,
        "more_bytes": 200,
        "evicted": 1,
        "expired": 0,
    }


def test_reading_what_will_happen_changes_nothing(admin_client: Client, valkey: "Redis") -> None:
    answer = admin_client.get(reverse("cache-fix"), {"choice": "lru-3"})

    assert "All gateways follow LRU-3 within seconds" in answer.text
    assert valkey.get(FIXED) is None
    assert not OperatorAction.objects.exists()


def test_what_is_fixed_is_in_the_store_and_in_the_records(
    admin_client: Client, admin_user: User, valkey: "Redis"
) -> None:
    answer = confirm(admin_client, "lru-3", reason="measuring")

    assert answer.headers["Location"] == reverse("cache")
    assert valkey.get(FIXED) == "lru-3"
    row = OperatorAction.objects.get()
    assert (row.operator, row.action, row.kind, row.target) == (admin_user, "fix", "cache", "lru-3")
    assert (row.reason, row.outcome) == ("measuring", "done")
    state = ask(admin_client)
    assert (state["fixed"], state["fixed_by"]) == ("lru-3", "(by admin, just now)")
    assert [action["target"] for action in state["actions"]] == ["LRU-3"]


def test_giving_it_back_leaves_no_key(admin_client: Client, valkey: "Redis") -> None:
    confirm(admin_client, "mq")
    assert "again within seconds" in admin_client.get(reverse("cache-fix")).text
    confirm(admin_client, "", seen="mq")

    assert valkey.get(FIXED) is None
    assert [(row.action, row.target) for row in OperatorAction.objects.all()] == [("release", "mq"), ("fix", "mq")]
    assert ask(admin_client)["fixed_by"] == ""


def test_the_second_of_two_operators_is_told_what_the_first_did(admin_client: Client, valkey: "Redis") -> None:
    confirm(admin_client, "mq")
    answer = confirm(admin_client, "arc", reason="mine")

    assert answer.status_code == 409
    assert "MQ is fixed now (by admin, just now)." in answer.text
    assert 'value="mine"' in answer.text
    assert valkey.get(FIXED) == "mq"
    confirm(admin_client, "arc", seen="mq")
    assert valkey.get(FIXED) == "arc"


def test_what_is_so_already_is_not_asked(admin_client: Client, valkey: "Redis") -> None:
    confirm(admin_client, "mq")

    text = admin_client.get(reverse("cache-fix"), {"choice": "mq"}).text
    assert "MQ is fixed already (by admin, just now): nothing to do." in text
    assert 'name="seen"' not in text


@pytest.mark.parametrize("method", ["get", "post"])
def test_staff_without_the_permission_look_but_do_not_fix(
    method: str, client: Client, staff: User, valkey: "Redis"
) -> None:
    client.force_login(staff)

    assert getattr(client, method)(reverse("cache-fix"), {"choice": "mq"}).status_code == 403
    page = client.get(reverse("cache")).text
    assert "data-choice" not in page
    assert "You may look but not fix" in page
    assert valkey.get(FIXED) is None


def test_staff_with_the_permission_fix(client: Client, staff: User, valkey: "Redis") -> None:
    staff.user_permissions.add(Permission.objects.get(codename="switch_traffic"))
    client.force_login(staff)
    confirm(client, "ghost")

    assert valkey.get(FIXED) == "ghost"
    assert OperatorAction.objects.get().operator_name == "anna"


def test_there_is_no_other_policy(admin_client: Client, valkey: "Redis") -> None:
    assert admin_client.get(reverse("cache-fix"), {"choice": "lfu"}).status_code == 404
    assert confirm(admin_client, "lfu").status_code == 404
    assert valkey.get(FIXED) is None


def test_queues_and_workers_cannot_be_fixed(admin_client: Client, valkey: "Redis") -> None:
    for data in (
        {"kind": "cache", "target": "mq", "action": "pause"},
        {"kind": "worker", "target": "w", "action": "fix"},
    ):
        assert admin_client.get(reverse("queues-switch"), data).status_code == 404


@pytest.mark.parametrize("method", ["get", "post"])
def test_without_valkey_nothing_is_claimed_to_be_done(
    method: str, admin_client: Client, settings: Settings, free_port: int
) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port}")

    assert ask(admin_client)["error"]
    answer = getattr(admin_client, method)(reverse("cache-fix"), {"choice": "mq"})
    assert answer.status_code == 503
    assert "Valkey does not answer" in answer.text
