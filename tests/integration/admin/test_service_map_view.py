"""The page "Service map": which stage is whose edge, and what stands out."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from gateway_admin import service_map_page
from gateway_admin.service_map import MOST, OTHERS
from tests.integration.admin.stored_requests import ago, asked, keep, travelled
from tracing.store import recent

pytestmark = pytest.mark.django_db
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def ask(client: Client, **choices: str) -> dict[str, Any]:
    answer = client.get(reverse("service-map-state"), choices)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def edges(state: dict[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(edge["source"], edge["target"], edge["what"]): edge for edge in state["edges"]}


def test_every_stage_is_the_edge_between_those_whom_it_takes(admin_client: Client) -> None:
    keep(travelled(ago(minutes=1)))

    found = {name: edge["p95_ms"] for name, edge in edges(ask(admin_client)).items()}

    assert found == {
        ("client:", "gateway:gateway-0", "ask"): 1,
        ("gateway:gateway-0", "store:", "admit"): 4,
        ("gateway:gateway-0", "broker:", "ticket"): 3,
        ("broker:", "worker:worker-0", "ticket"): 3,
        ("worker:worker-0", "store:", "claim"): 4,
        ("worker:worker-0", "engine:worker-0", "run"): 101,
        ("worker:worker-0", "store:", "back"): 6,
        ("store:", "gateway:gateway-0", "back"): 6,
        ("gateway:gateway-0", "client:", "answer"): 1,
    }


def test_a_hop_of_2_ms_stands_out_and_work_does_not(admin_client: Client) -> None:
    keep(travelled(ago(minutes=1)))

    slow = {name[2] for name, edge in edges(ask(admin_client)).items() if edge["slow"]}

    assert slow == {"admit", "ticket", "claim", "back"}


def test_failures_are_put_down_to_where_they_happened(admin_client: Client) -> None:
    failed = travelled(ago(minutes=1), status=502)
    refused = asked(ago(minutes=1), worker="", status=503)
    keep(failed, refused, travelled(ago(minutes=1), worker="worker-1"))

    errors = {name: edge["errors"] for name, edge in edges(ask(admin_client)).items() if edge["errors"]}

    assert errors == {
        ("worker:worker-0", "engine:worker-0", "run"): 1,
        ("gateway:gateway-0", "store:", "admit"): 1,
        ("gateway:gateway-0", "client:", "answer"): 2,
    }


def test_an_edge_that_knows_failures_alone_is_drawn_without_a_time(admin_client: Client) -> None:
    keep(asked(ago(minutes=1), worker="", status=503))

    edge = edges(ask(admin_client))[("gateway:gateway-0", "store:", "admit")]

    assert (edge["requests"], edge["p95_ms"], edge["slow"], edge["errors"]) == (0, None, False, 1)


def test_the_busiest_processes_are_drawn_and_the_others_gathered(admin_client: Client) -> None:
    for number in range(MOST + 1):
        keep(*(travelled(ago(minutes=1), worker=f"worker-{number}") for _ in range(9 - number)))

    workers = [node for node in ask(admin_client)["nodes"] if node["kind"] == "worker"]

    assert [node["name"] for node in workers] == ["worker-0", "worker-1", "worker-2", OTHERS]
    assert workers[-1]["requests"] == 6 + 5


def test_only_the_chosen_time_is_shown(admin_client: Client) -> None:
    keep(travelled(ago(minutes=10)))

    assert ask(admin_client)["nodes"] == []
    assert ask(admin_client, minutes="15")["requests"] == 1
    assert ask(admin_client, minutes="7")["requests"] == 0
    text = admin_client.get(reverse("service-map"), {"minutes": "15"}).text
    assert '<option value="15" selected>' in text
    assert "No request began in this time" in text


def test_of_more_requests_than_are_read_the_rate_is_still_right(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent, "LATEST", 10)
    begin_us = ago(seconds=40)
    keep(*(travelled(begin_us + number * 1_000_000) for number in range(40)))

    state = ask(admin_client)

    assert (state["sampled"], state["requests"]) == (True, 10)
    rate = edges(state)[("client:", "gateway:gateway-0", "ask")]["per_s"]
    assert 0.5 < rate < 1.5


@pytest.mark.parametrize("page", ["service-map", "service-map-state"])
def test_only_who_may_see_requests_sees_their_ways(page: str, client: Client) -> None:
    staff = User.objects.create_user("anna", is_staff=True)
    client.force_login(staff)
    assert client.get(reverse(page)).status_code == 403

    staff.user_permissions.add(Permission.objects.get(codename="view_storedrequest"))
    assert client.get(reverse(page)).status_code == 200


def test_the_words_of_the_service_map_are_chinese() -> None:
    with translation.override("zh-hans"):
        words = service_map_page.page_words()
        for sign in ("others_mark", "per_s", "comma"):
            words.pop(sign)
        texts = [text for entry in words.values() for text in (entry.values() if isinstance(entry, dict) else [entry])]
        assert [text for text in texts if not CHINESE.search(str(text))] == []
