"""The page "Heat map", its JSON, and the page behind a cell."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from django.utils import translation

from gateway_admin import heat_page
from tests.integration.admin.stored_requests import ago, asked, keep

PAGES = ("heat-map", "heat-state", "heat-cell")
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def ask(client: Client, **choices: Any) -> dict[str, Any]:
    answer = client.get(reverse("heat-state"), choices)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def look(client: Client, **choices: Any) -> str:
    answer = client.get(reverse("heat-cell"), choices)
    assert answer.status_code == 200
    text: str = answer.text
    return text


def test_an_empty_store_says_so(admin_client: Client) -> None:
    state = ask(admin_client)

    assert (state["rows"], state["used_before"]) == ([], False)
    assert "No request has been counted yet" in admin_client.get(reverse("heat-map")).text


def test_a_quiet_time_is_not_taken_for_a_new_product(admin_client: Client) -> None:
    keep(asked(ago(hours=5)))

    assert ask(admin_client, period="15m")["used_before"] is True
    assert ask(admin_client, period="15m")["rows"] == []


def test_choices_stand_in_the_address(admin_client: Client) -> None:
    address = {"period": "24h", "measure": "ttft", "model": "org/m1", "split": "on", "at": "1900000000"}
    text = admin_client.get(reverse("heat-map"), address).text

    assert '<option value="24h" selected>' in text
    assert '<option value="ttft" selected>' in text
    assert '<option value="org/m1" selected>' in text
    assert 'value="on" checked' in text
    assert 'name="at" id="at" value="1900000000"' in text


@pytest.mark.parametrize("wrong", [{"period": "2h"}, {"measure": "x"}, {"at": "soon"}, {"at": "9" * 30}])
def test_a_wrong_choice_counts_as_none(wrong: dict[str, str], admin_client: Client) -> None:
    keep(asked(ago(minutes=3)))

    assert admin_client.get(reverse("heat-map"), wrong).status_code == 200
    assert len(ask(admin_client, **wrong)["rows"]) == 1


def test_a_map_stands_still_at_the_moment_of_its_address(admin_client: Client) -> None:
    keep(asked(ago(minutes=40)), asked(ago(minutes=3)))

    live, still = ask(admin_client), ask(admin_client, at=str(ago(minutes=30) // 1_000_000))

    assert (live["rows"][0]["cells"][0], live["refresh_ms"]) == ([2, 0], 5_000)
    assert (still["rows"][0]["cells"][0], still["refresh_ms"]) == ([1, 0], 0)


def test_a_cell_shows_instances_and_leads_to_each_request(admin_client: Client) -> None:
    failed = asked(ago(minutes=3), 700, status=502, outcome="failed", worker="worker-1")
    keep(failed, asked(ago(minutes=3), 10))

    text = look(admin_client, tenant="acme", buckets="2-5")

    assert "Heat map: acme, over 500 ms" in text
    assert 'id="requests">1<' in text
    assert "worker-1" in text
    assert "worker-0" not in text
    assert f'href="/admin/traces/{failed.request_id}"' in text


def test_rows_and_columns_have_requests_too(admin_client: Client) -> None:
    keep(asked(ago(minutes=3), 700, tenant="bolt"), asked(ago(minutes=3), 10), asked(ago(minutes=3), 10, tenant=""))

    assert 'id="requests">3<' in look(admin_client)
    assert 'id="requests">1<' in look(admin_client, buckets="2-5")
    assert "Heat map: bolt, any time" in look(admin_client, tenant="bolt")
    assert "Heat map: No valid key, up to 100 ms" in look(admin_client, tenant="", buckets="0-0")


def test_others_are_all_but_the_tenants_with_a_line(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracing.store.heat.TOP", 1)
    keep(asked(ago(minutes=3)), asked(ago(minutes=3)), asked(ago(minutes=3), tenant="bolt"))

    text = look(admin_client, others="on")

    assert 'id="requests">1<' in text
    assert "bolt" in text


def test_a_cell_leads_back_to_its_map(admin_client: Client) -> None:
    text = look(admin_client, period="24h", model="a b", at="1900000000")

    assert "/admin/heat-map/?period=24h&amp;measure=duration&amp;model=a+b&amp;at=1900000000" in text
    assert "No such request began in this time" in text


@pytest.mark.parametrize("buckets", ["3-1", "0-9", "x"])
def test_there_is_no_other_cell(buckets: str, admin_client: Client) -> None:
    assert admin_client.get(reverse("heat-cell"), {"buckets": buckets}).status_code == 404


@pytest.mark.parametrize("page", PAGES)
def test_only_who_may_see_requests_sees_them(page: str, client: Client, db: None) -> None:
    staff = User.objects.create_user("anna", is_staff=True)
    client.force_login(staff)
    assert client.get(reverse(page)).status_code == 403

    staff.user_permissions.add(Permission.objects.get(codename="view_storedrequest"))
    assert client.get(reverse(page)).status_code == 200


@pytest.mark.parametrize("page", PAGES)
def test_nobody_looks_without_a_login(page: str, client: Client, db: None) -> None:
    assert client.get(reverse(page)).status_code == 302


def test_the_words_of_the_map_are_chinese() -> None:
    with translation.override("zh-hans"):
        words = heat_page.page_words()
        columns = [column["name"] for kind in words.pop("columns").values() for column in kind]
        assert [text for text in [*words.values(), *columns] if not CHINESE.search(str(text))] == []
