"""The page "Queues": its figures come out right for a store filled by hand."""

import re
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings
from redis import Redis

from gateway_admin.queues import percentile
from tests.integration.admin.store import MODEL, add_tokens, add_waiting, add_worker


def ask(client: Client, **headers: str) -> dict[str, Any]:
    answer = client.get(reverse("queues-state"), headers=headers)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def ask_queue(client: Client, qos_class: str) -> dict[str, Any]:
    (model,) = ask(client)["models"]
    (queue,) = [queue for queue in model["queues"] if queue["qos_class"] == qos_class]
    return dict(queue)


def troubles(client: Client) -> dict[str, tuple[str, str]]:
    return {trouble["key"]: (trouble["level"], trouble["text"]) for trouble in ask(client)["troubles"]}


def test_an_empty_store_shows_nothing_and_no_error(admin_client: Client, valkey: "Redis") -> None:
    state = ask(admin_client)

    assert (state["models"], state["workers"], state["troubles"], state["actions"]) == ([], [], [], [])
    assert state["error"] == ""


def test_a_queue_that_nobody_used_knows_nothing_rather_than_zero(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")

    assert ask_queue(admin_client, "p0") == {
        "model": MODEL,
        "qos_class": "p0",
        "state": "open",
        "waiting": 0,
        "oldest_wait_ms": None,
        "waits": None,
        "window": None,
        "room": 0,
        "waiting_bytes": 0,
        "shares": [],
        "others": {"tenants": 0, "tokens": 0, "share": 0, "waiting": 0},
    }


def test_every_class_of_a_model_is_shown_with_its_limits(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")

    state = ask(admin_client)

    assert [queue["qos_class"] for queue in state["models"][0]["queues"]] == ["p0", "p1", "p2"]
    assert [state["limits"][name]["tolerated_ms"] for name in ("p0", "p1", "p2")] == [10, 200, 5000]
    assert [state["limits"][name]["deadline_ms"] for name in ("p0", "p1", "p2")] == [10_000, 60_000, 600_000]
    assert [state["limits"][name]["ageing_ms"] for name in ("p0", "p1", "p2")] == [None, 5_000, 30_000]
    assert state["limits"]["p2"]["max_waiting_bytes"] == 256 * 2**20


def test_depth_oldest_wait_room_and_memory_come_from_the_store(admin_client: Client, valkey: "Redis") -> None:
    add_waiting(valkey, "p2", {"acme": 3, "bolt": 2}, oldest_ms=4_200)
    valkey.hset(f"sl:room:{MODEL}:p2", mapping={"worker-0": 5, "worker-1": 2})
    valkey.set(f"sl:bytes:{MODEL}:p2", 3 * 2**20)

    queue = ask_queue(admin_client, "p2")

    assert (queue["waiting"], queue["room"], queue["waiting_bytes"]) == (5, 7, 3 * 2**20)
    assert queue["oldest_wait_ms"] >= 4_200


def test_waits_are_told_as_percentiles(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    valkey.rpush(f"sl:waits:{MODEL}:p1", *range(100, 0, -1))

    assert ask_queue(admin_client, "p1")["waits"] == {"count": 100, "p50_ms": 50, "p95_ms": 95}


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_has_its_share_at_or_below_it_and_less_below(values: list[float], share: float) -> None:
    values.sort()

    found = percentile(values, share)

    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def test_the_last_window_is_shown(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    window = {"capacity": 12, "last_closed_by": "size", "wait_ms": 31.5, "closed": 9, "at": 1_900_000_000_000}
    valkey.hset(f"sl:windows:{MODEL}:p1", mapping=window)

    assert ask_queue(admin_client, "p1")["window"] == window


def test_shares_are_those_of_one_queue_over_five_minutes(admin_client: Client, valkey: "Redis", rows: Any) -> None:
    add_waiting(valkey, "p1", {"acme": 4, "newcomer": 1})
    add_tokens(valkey, "p1", {"acme": 200, "bolt": 100}, minutes_ago=0)
    add_tokens(valkey, "p1", {"acme": 100}, minutes_ago=4)
    add_tokens(valkey, "p1", {"bolt": 5_000}, minutes_ago=6)
    add_tokens(valkey, "p2", {"bolt": 9_000}, minutes_ago=1)

    queue = ask_queue(admin_client, "p1")

    assert queue["shares"] == [
        {"tenant": "acme", "tokens": 300, "share": 0.75, "waiting": 4},
        {"tenant": "bolt", "tokens": 100, "share": 0.25, "waiting": 0},
        {"tenant": "newcomer", "tokens": 0, "share": 0, "waiting": 1},
    ]
    assert ask(admin_client)["weights"] == {"acme": 1.0}


def test_the_minute_at_the_far_end_counts_in_part(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    add_tokens(valkey, "p1", {"acme": 60}, minutes_ago=5)

    (share,) = ask_queue(admin_client, "p1")["shares"]

    assert 0 <= share["tokens"] <= 60
    assert share["tokens"] == pytest.approx(round(share["tokens"]))  # whole seconds of one token each


def test_beyond_twenty_tenants_the_rest_is_one_line(admin_client: Client, valkey: "Redis") -> None:
    tenants = {f"t{number:02}": 100 - number for number in range(25)}
    add_tokens(valkey, "p1", dict(tenants))
    add_waiting(valkey, "p1", dict.fromkeys(tenants, 2))

    queue = ask_queue(admin_client, "p1")

    assert [share["tenant"] for share in queue["shares"]] == list(tenants)[:20]
    assert queue["others"]["tenants"] == 5
    assert queue["others"]["waiting"] == 10
    assert sum(share["share"] for share in queue["shares"]) + queue["others"]["share"] == pytest.approx(1)


def test_a_worker_tells_its_cap_reserve_cache_and_steps(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0", padding_waste=0.125)

    (worker,) = ask(admin_client)["workers"]

    assert (worker["running"], worker["cap"], worker["max_num_seqs"]) == (12, 12, 32)
    assert worker["cap_reason"] == "time per token over its goal"
    assert (worker["reserve_p0"], worker["free_kv_tokens"], worker["preemptions"]) == (4, 4_000, 3)
    assert (worker["step_ms"], worker["prefix_hit_rate"], worker["padding_waste"]) == (21.5, 0.89, 0.125)
    assert worker["classes"] == ["p0", "p1", "p2"]


def test_suspects_are_counted(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    valkey.zadd(f"sl:trial:{MODEL}", {"a": 1, "b": 2})

    assert ask(admin_client)["models"][0]["on_trial"] == 2
    assert "2 requests were on an engine when it died" in troubles(admin_client)[f"trial:{MODEL}"][1]


def test_a_switched_queue_is_shown_though_nothing_of_its_model_lives(admin_client: Client, valkey: "Redis") -> None:
    valkey.hset("sl:switch", mapping={f"queue:{MODEL}:p2": "paused", "worker:gone": "draining"})

    assert ask_queue(admin_client, "p2")["state"] == "paused"
    assert ask(admin_client)["troubles"][0]["target"] == ["worker", "gone"]
    assert "gone is not alive" in troubles(admin_client)["worker:gone"][1]


def test_a_word_that_no_script_obeys_is_taken_for_open(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    valkey.hset("sl:switch", f"queue:{MODEL}:p2", "nonsense")

    assert ask_queue(admin_client, "p2")["state"] == "open"


def test_a_queue_in_order_is_no_trouble(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    add_waiting(valkey, "p2", {"acme": 2})

    assert troubles(admin_client) == {}


def test_what_waits_too_long_says_that_the_workers_are_full(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0", cap=None, cap_reason=None)
    add_worker(valkey, "worker-1", cap=None, cap_reason=None)
    add_waiting(valkey, "p1", {"acme": 2}, oldest_ms=4_200)

    level, text = troubles(admin_client)[f"queue:{MODEL}:p1"]

    assert level == "wait"
    assert text.startswith("P1 core business of org:m1 waits 4.")
    assert text.endswith("(tolerates 200 ms): all 2 workers are full.")


def test_a_cap_is_named_with_its_reason(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    add_waiting(valkey, "p1", {"acme": 2}, oldest_ms=4_200)

    text = troubles(admin_client)[f"queue:{MODEL}:p1"][1]

    assert text.endswith("the worker is full (worker-0 held to 12 of 32 sequences: time per token over its goal).")


def test_room_that_is_kept_for_others_is_named(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0", cap=None)
    valkey.hset(f"sl:room:{MODEL}:p0", "worker-0", 4)
    add_waiting(valkey, "p2", {"acme": 2}, oldest_ms=9_000)

    text = troubles(admin_client)[f"queue:{MODEL}:p2"][1]

    assert text.endswith("the worker is full but for 4 kept free for more urgent classes.")


def test_room_that_nobody_claims_is_named(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0", free_seqs=4)
    valkey.hset(f"sl:room:{MODEL}:p1", "worker-0", 4)
    add_waiting(valkey, "p1", {"acme": 2}, oldest_ms=9_000)

    assert "there is room for 4" in troubles(admin_client)[f"queue:{MODEL}:p1"][1]


def test_too_little_room_is_named(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0", cap=None)
    valkey.hset(f"sl:room:{MODEL}:p1", "worker-0", 1)
    add_waiting(valkey, "p1", {"acme": 5}, oldest_ms=9_000)

    assert troubles(admin_client)[f"queue:{MODEL}:p1"][1].endswith("the worker has room for only 1.")


def test_what_comes_near_its_deadline_is_bad(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    add_waiting(valkey, "p1", {"acme": 2}, oldest_ms=45_000)

    level, text = troubles(admin_client)[f"queue:{MODEL}:p1"]

    assert (level, text.endswith("Requests are refused after 1 min.")) == ("bad", True)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"classes": "p0"}, "No worker that serves this class is alive."),
        ({"state": "starting", "reason": "loading weights"}, "No worker is ready (worker-0: loading weights)."),
    ],
)
def test_nobody_to_serve_is_bad_at_once(
    fields: dict[str, str], said: str, admin_client: Client, valkey: "Redis"
) -> None:
    add_worker(valkey, "worker-0", **fields)
    add_waiting(valkey, "p2", {"acme": 1})

    level, text = troubles(admin_client)[f"queue:{MODEL}:p2"]

    assert level == "bad"
    assert said in text


def test_paused_workers_alone_serve_nobody(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    valkey.hset("sl:switch", "worker:worker-0", "paused")
    add_waiting(valkey, "p1", {"acme": 1})

    assert "Every worker that is ready is paused or draining." in troubles(admin_client)[f"queue:{MODEL}:p1"][1]


def test_late_waits_are_told_while_something_waits(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    valkey.rpush(f"sl:waits:{MODEL}:p2", *[6_500] * 10)

    assert troubles(admin_client) == {}
    add_waiting(valkey, "p2", {"acme": 1})
    assert "waited 6.5 s or more (tolerates 5 s)" in troubles(admin_client)[f"queue:{MODEL}:p2"][1]


@pytest.mark.parametrize(
    ("running", "said"),
    [(3, "draining: 3 requests running to the end."), (0, "drained: nothing runs on it, it can be stopped.")],
)
def test_a_draining_worker_says_when_it_is_drained(
    running: int, said: str, admin_client: Client, valkey: "Redis"
) -> None:
    add_worker(valkey, "worker-0", running=running)
    valkey.hset("sl:switch", "worker:worker-0", "draining")

    assert troubles(admin_client)["worker:worker-0"] == ("wait", f"worker-0 is {said}")


def test_the_worst_trouble_comes_first(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    add_worker(valkey, "worker-1", state="failed", reason="known answer: off")
    add_waiting(valkey, "p0", {"acme": 1}, oldest_ms=50)

    assert [trouble["level"] for trouble in ask(admin_client)["troubles"]] == ["bad", "wait"]


def test_troubles_are_told_in_the_operators_language(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "w0", cap_reason="")
    add_worker(valkey, "w1", state="failed")
    add_worker(valkey, "w2", running=0)
    add_waiting(valkey, "p0", {"acme": 2}, oldest_ms=9_200)
    add_waiting(valkey, "p1", {"acme": 2}, oldest_ms=4_200)
    add_waiting(valkey, "p2", {"acme": 2})
    valkey.hset("sl:switch", mapping={f"queue:{MODEL}:p2": "paused", "worker:w2": "draining", "worker:w9": "paused"})
    valkey.zadd(f"sl:trial:{MODEL}", {"suspect": 1})

    texts = [trouble["text"] for trouble in ask(admin_client, **{"accept-language": "zh-hans"})["troubles"]]

    assert len(texts) == 7
    assert [text for text in texts if re.search("[a-z]{3,}", text.replace("org", ""))] == []


def test_without_valkey_the_page_says_so(admin_client: Client, settings: Settings, free_port: int) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port}")

    state = ask(admin_client)

    assert state["error"]
    assert (state["models"], state["troubles"]) == ([], [])
    assert "Valkey does not answer" in admin_client.get(reverse("queues")).text
