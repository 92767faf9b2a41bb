"""The page "Engines" on a real Valkey."""

from dataclasses import replace
from typing import Any

from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from redis import Redis

WORKER = {
    "model": "m1",
    "engine": "simulator",
    "version": "1.0.0+abc",
    "dtype": "float32",
    "state": "ready",
    "reason": "",
    "max_num_seqs": 32,
    "free_seqs": 20,
    "running": 12,
    "kv_blocks": 1000,
    "free_kv_blocks": 250,
    "max_model_len": 2048,
    "pid": 42,
    "host": "box",
    "started_at": 1_900_000_000,
}


def ask(client: Client) -> dict[str, Any]:
    answer = client.get(reverse("engines-state"))
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_nothing_alive_is_shown_as_nothing(admin_client: Client, valkey: "Redis") -> None:
    state = ask(admin_client)

    assert (state["gateways"], state["workers"], state["waiting"], state["slots"]) == ([], [], 0, [])
    assert state["error"] == ""


def test_workers_and_gateways_that_live_are_shown(admin_client: Client, valkey: "Redis") -> None:
    valkey.sadd("sl:workers", "worker-0", "dead")
    valkey.hset("sl:worker:worker-0", mapping=WORKER)
    valkey.sadd("sl:gateways", "gateway-0", "dead")
    valkey.set("sl:gateway:gateway-0", "1")

    state = ask(admin_client)

    assert state["gateways"] == ["gateway-0"]
    (worker,) = state["workers"]
    assert {name: worker[name] for name in ("id", *WORKER)} == {"id": "worker-0", **WORKER}
    assert worker["switch"] == "open"


def test_a_starting_worker_need_not_know_all(admin_client: Client, valkey: "Redis") -> None:
    valkey.sadd("sl:workers", "worker-0")
    valkey.hset("sl:worker:worker-0", mapping={"model": "m1", "state": "starting", "reason": "loading"})

    (worker,) = ask(admin_client)["workers"]

    assert (worker["state"], worker["reason"], worker["kv_blocks"]) == ("starting", "loading", 0)
    assert worker["free_kv_blocks"] is None  # unknown is not the same as none


def test_what_waits_is_counted_over_all_classes(admin_client: Client, valkey: "Redis") -> None:
    valkey.sadd("sl:models", "org:m1")
    valkey.zadd("sl:ready:org:m1:p0", {"a": 1})
    valkey.zadd("sl:ready:org:m1:p1", {"a": 1, "b": 2})

    assert ask(admin_client)["waiting"] == 3


def test_a_worker_that_an_operator_paused_is_shown_as_paused(admin_client: Client, valkey: "Redis") -> None:
    valkey.sadd("sl:workers", "worker-0")
    valkey.hset("sl:worker:worker-0", mapping=WORKER)
    valkey.hset("sl:switch", "worker:worker-0", "paused")

    assert ask(admin_client)["workers"][0]["switch"] == "paused"


def test_requests_under_way_are_shown_beside_the_limit(admin_client: Client, valkey: "Redis", rows: Any) -> None:
    valkey.sadd(f"sl:slots:t:{rows.tenant.pk}", "a", "b", "c")
    valkey.sadd(f"sl:slots:k:{rows.key.pk}", "a", "b", "c")
    valkey.sadd("sl:slots:t:987654", "a")

    assert ask(admin_client)["slots"] == [
        {"tenant": "acme", "running": 3, "limit": 8},
        {"tenant": "#987654", "running": 1, "limit": None},
    ]


def test_the_last_minute_comes_from_the_usage(admin_client: Client, valkey: "Redis", rows: Any) -> None:
    assert ask(admin_client)["last_minute"] == {
        "requests": 1,
        "failed": 0,
        "prompt_tokens": 12,
        "completion_tokens": 60,
    }


def test_without_valkey_the_pages_say_so(admin_client: Client, settings: Settings, free_port: int) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port}")

    assert ask(admin_client)["error"]
    assert "Valkey does not answer" in admin_client.get(reverse("admin:index")).text
    assert "Valkey does not answer" in admin_client.get(reverse("engines")).text


def test_the_first_page_shows_the_key_figures(admin_client: Client, valkey: "Redis", rows: Any) -> None:
    valkey.sadd("sl:workers", "worker-0")
    valkey.hset("sl:worker:worker-0", mapping=WORKER)

    text = admin_client.get(reverse("admin:index")).text

    assert "<dd>1 / 1</dd>" in text
    assert "<dd>12</dd>" in text
    assert "No request yet" not in text


def test_the_first_page_says_how_to_begin(admin_client: Client, valkey: "Redis") -> None:
    text = admin_client.get(reverse("admin:index")).text

    assert "No worker is alive" in text
    assert "curl http://testserver/v1/chat/completions" in text
