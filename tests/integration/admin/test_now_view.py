"""The page "Now": figures of the requests that just ended, and what stands in the store."""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import translation
from pytest_django import Settings
from redis import Redis

from gateway_admin import now_page
from gateway_admin.now import SECOND_US, Figures, figures_of, read_recent
from tests.integration.admin.store import add_waiting, add_worker
from tests.integration.admin.stored_requests import ago, asked, keep
from tracing.store import recent

pytestmark = pytest.mark.django_db
CHINESE = re.compile(r"[\u4e00-\u9fff]")
SECOND = 1_900_000_000


@pytest.fixture(autouse=True)
def _read_anew() -> Iterator[None]:
    read_recent.cache_clear()
    yield
    read_recent.cache_clear()


def ended(seconds_ago: float, ms: float = 50, **fields: Any) -> None:
    """A request that ended so long before the second of these tests."""
    keep(asked(int((SECOND - seconds_ago) * SECOND_US - ms * 1000), ms, **fields))


def figures() -> Figures:
    return figures_of(read_recent(SECOND))


def ask(client: Client, **asked_for: str) -> dict[str, Any]:
    answer = client.get(reverse("now-state"), asked_for)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def test_rates_are_of_the_last_ten_seconds_that_are_stored() -> None:
    for seconds_ago in (0.5, 2, 5, 10.5, 11.5, 40):
        ended(seconds_ago, completion_tokens=20)

    assert (figures()["requests_per_s"], figures()["tokens_per_s"], figures()["requests"]) == (0.3, 6.0, 6)


def test_a_long_request_counts_when_it_ends() -> None:
    ended(30, ms=400_000)
    ended(70, ms=400_000)

    assert figures()["requests"] == 1


def test_times_are_median_and_95th_percentile() -> None:
    for ms in (100, 200, 300):
        ended(5, ms=ms + 100, first_ms=ms, completion_tokens=11)
    ended(5)

    assert figures()["ttft"] == {"p50_ms": 200, "p95_ms": 300}
    assert figures()["token"] == {"p50_ms": 10, "p95_ms": 10}


def test_failures_and_refusals_are_told_apart() -> None:
    for status in (200, 429, 429, 503, 504, 499):
        ended(5, status=status)

    assert (figures()["requests"], figures()["failed"], figures()["refused"]) == (6, 2, 2)


def test_shares_of_caches_are_of_those_that_could_have_hit() -> None:
    for cache in ("hit", "miss", "miss", "coalesced", ""):
        ended(5, cache=cache, prompt_tokens=100, cached_tokens=25)

    assert (figures()["cache_share"], figures()["prefix_share"]) == (0.5, 0.25)


def test_nothing_is_unknown_rather_than_zero() -> None:
    found = figures()

    assert (found["requests"], found["cache_share"], found["prefix_share"]) == (0, None, None)
    assert found["ttft"] == found["token"] == {"p50_ms": None, "p95_ms": None}


def test_more_requests_than_are_read_are_said_to_be_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "LATEST", 2)
    for seconds_ago in (1, 2, 3):
        ended(seconds_ago)

    assert (figures()["requests"], figures()["sampled"]) == (2, True)


def test_what_fails_is_named_first(admin_client: Client, valkey: "Redis") -> None:
    keep(*(asked(ago(seconds=5), status=status) for status in (200, 200, 200, 503)))

    (trouble,) = ask(admin_client)["troubles"]

    assert (trouble["key"], trouble["level"]) == ("failing", "bad")
    assert trouble["text"] == "25 % of the requests that ended in the last minute failed: 1 of 4."


def test_what_waits_and_runs_stands_in_the_store(admin_client: Client, valkey: "Redis") -> None:
    add_worker(valkey, "worker-0")
    add_waiting(valkey, "p1", {"acme": 14, "bolt": 3}, oldest_ms=4_200)
    add_waiting(valkey, "p1", {"acme": 1}, oldest_ms=10, model="m2")

    state = ask(admin_client)

    assert {name: found["count"] for name, found in state["waiting"].items()} == {"p0": 0, "p1": 18, "p2": 0}
    assert state["waiting"]["p1"]["oldest_ms"] >= 4_200
    assert [(worker["id"], worker["running"], worker["cap"]) for worker in state["workers"]] == [("worker-0", 12, 12)]
    assert any("waits" in trouble["text"] for trouble in state["troubles"])


def test_a_page_that_opens_gets_the_minutes_before(admin_client: Client, valkey: "Redis") -> None:
    keep(*(asked(ago(minutes=2), status=status) for status in (200, 200, 503)))

    minutes = ask(admin_client, history="")["minutes"]

    assert len(minutes) == 5
    assert [minute for minute in minutes if minute["requests_per_s"]] == [
        {
            "at": pytest.approx(ago(minutes=2) / SECOND_US, abs=61),
            "requests_per_s": 0.05,
            "failed": pytest.approx(1 / 3),
        }
    ]
    assert "minutes" not in ask(admin_client)


def test_without_valkey_the_stored_figures_are_still_shown(
    admin_client: Client, settings: Settings, free_port: int
) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port}")
    keep(asked(ago(seconds=5)))

    state = ask(admin_client)

    assert state["error"]
    assert (state["waiting"], state["workers"], state["figures"]["requests"]) == (None, [], 1)


def test_everybody_who_looks_in_one_second_shares_one_reading() -> None:
    first = read_recent(SECOND)
    ended(5)

    assert read_recent(SECOND) is first
    assert len(read_recent(SECOND + 1).ended) == 1


@pytest.mark.parametrize("page", ["now", "now-state"])
def test_only_who_may_see_requests_sees_what_is_now(page: str, client: Client, valkey: "Redis") -> None:
    staff = User.objects.create_user("anna", is_staff=True)
    client.force_login(staff)
    assert client.get(reverse(page)).status_code == 403

    staff.user_permissions.add(Permission.objects.get(codename="view_storedrequest"))
    assert client.get(reverse(page)).status_code == 200


def test_the_words_of_now_are_chinese() -> None:
    with translation.override("zh-hans"):
        words = now_page.page_words()
        texts = [text for entry in words.values() for text in (entry.values() if isinstance(entry, dict) else [entry])]
        assert [text for text in texts if not CHINESE.search(str(text)) and text not in ("{count}/s",)] == []
