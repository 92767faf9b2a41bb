"""Pausing, draining and opening: who may, what is asked first, what is written."""

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse
from pytest_django import Settings
from redis import Redis

from gateway_admin.models import OperatorAction
from tests.integration.admin.store import MODEL, add_waiting, add_worker

QUEUE = {"kind": "queue", "target": f"{MODEL}:p2"}
FIELD = f"queue:{MODEL}:p2"
SWITCH = "sl:switch"


@pytest.fixture
def busy(valkey: "Redis") -> "Redis":
    """One worker that runs 12, and 17 that wait in P2."""
    add_worker(valkey, "worker-0")
    add_waiting(valkey, "p2", {"acme": 17})
    return valkey


@pytest.fixture
def staff(db: None) -> User:
    return User.objects.create_user("anna", is_staff=True)


def confirm(client: Client, action: str, seen: str = "open", reason: str = "", **target: str) -> Any:
    data = {**(target or QUEUE), "action": action, "seen": seen, "reason": reason}
    return client.post(reverse("queues-switch"), data)


def test_reading_what_will_happen_changes_nothing(admin_client: Client, busy: "Redis") -> None:
    answer = admin_client.get(reverse("queues-switch"), {**QUEUE, "action": "pause"})

    assert "the 17 requests waiting now" in answer.text
    assert "whatever has waited 10 min is refused" in answer.text
    assert busy.hgetall(SWITCH) == {}
    assert not OperatorAction.objects.exists()


@pytest.mark.parametrize(("action", "state"), [("pause", "paused"), ("drain", "draining")])
def test_a_confirmed_switch_is_in_the_store_and_in_the_records(
    action: str, state: str, admin_client: Client, admin_user: User, busy: "Redis"
) -> None:
    answer = confirm(admin_client, action, reason="engine update")

    assert answer.headers["Location"] == reverse("queues")
    assert busy.hgetall(SWITCH) == {FIELD: state}
    row = OperatorAction.objects.get()
    assert (row.operator, row.operator_name, row.action, row.kind) == (admin_user, "admin", action, "queue")
    assert (row.target, row.previous_state, row.reason, row.outcome) == (f"{MODEL}:p2", "open", "engine update", "done")


def test_opening_leaves_no_field(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "drain")
    confirm(admin_client, "open", seen="draining")

    assert busy.hgetall(SWITCH) == {}
    assert OperatorAction.objects.first().previous_state == "draining"  # type: ignore[union-attr]


def test_a_worker_is_switched_by_its_id(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "drain", kind="worker", target="worker-0")

    assert busy.hgetall(SWITCH) == {"worker:worker-0": "draining"}


def test_the_last_worker_of_a_class_is_not_paused_unawares(admin_client: Client, busy: "Redis") -> None:
    add_worker(busy, "worker-1", classes="p0")
    ask = {"kind": "worker", "target": "worker-0", "action": "pause"}

    text = admin_client.get(reverse("queues-switch"), ask).text

    assert "the 12 requests running on it now go on" in text
    assert "No other open worker serves P1, P2" in text


def test_with_another_worker_the_page_says_who_takes_over(admin_client: Client, busy: "Redis") -> None:
    add_worker(busy, "worker-1")
    ask = {"kind": "worker", "target": "worker-0", "action": "pause"}

    assert "1 other worker takes what waits." in admin_client.get(reverse("queues-switch"), ask).text


def test_switching_twice_is_no_harm(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause")
    answer = confirm(admin_client, "pause")

    assert answer.status_code == 302
    assert busy.hgetall(SWITCH) == {FIELD: "paused"}
    assert [row.outcome for row in OperatorAction.objects.all()] == ["unchanged", "done"]


def test_what_is_so_already_is_not_asked(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause")

    text = admin_client.get(reverse("queues-switch"), {**QUEUE, "action": "pause"}).text

    assert "It is paused already (by admin, just now): nothing to do." in text
    assert 'name="seen"' not in text


def test_the_second_of_two_operators_is_told_what_the_first_did(
    admin_client: Client, client: Client, staff: User, busy: "Redis"
) -> None:
    staff.user_permissions.add(Permission.objects.get(codename="switch_traffic"))
    client.force_login(staff)
    confirm(client, "drain")

    answer = confirm(admin_client, "pause", reason="mine")

    assert answer.status_code == 409
    assert "It is draining now (by anna, just now)." in answer.text
    assert 'value="mine"' in answer.text
    assert busy.hgetall(SWITCH) == {FIELD: "draining"}
    assert OperatorAction.objects.first().outcome == "overtaken"  # type: ignore[union-attr]

    confirm(admin_client, "pause", seen="draining")
    assert busy.hgetall(SWITCH) == {FIELD: "paused"}


def test_the_page_says_who_switched(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause", reason="engine update")

    state = admin_client.get(reverse("queues-state")).json()

    assert state["switched_by"] == {FIELD: "(by admin, just now)"}
    (trouble,) = state["troubles"]
    assert trouble["text"] == (
        "P2 background of org:m1 is paused (by admin, just now): nothing is claimed, 17 requests waiting."
    )
    assert trouble["level"] == "bad"
    (action,) = state["actions"]
    assert (action["operator"], action["target"], action["reason"]) == (
        "admin",
        "P2 background of org:m1",
        "engine update",
    )


def test_a_switch_that_was_not_made_here_is_shown_without_a_name(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause")
    busy.hset(SWITCH, FIELD, "draining")

    assert admin_client.get(reverse("queues-state")).json()["switched_by"] == {}


def test_only_the_last_ten_actions_are_on_the_page(admin_client: Client, busy: "Redis") -> None:
    for _ in range(6):
        confirm(admin_client, "pause")
        confirm(admin_client, "open", seen="paused")

    actions = admin_client.get(reverse("queues-state")).json()["actions"]

    assert len(actions) == 10
    assert actions == sorted(actions, key=lambda action: -action["id"])


@pytest.mark.parametrize("method", ["get", "post"])
def test_staff_without_the_permission_look_but_do_not_switch(
    method: str, client: Client, staff: User, busy: "Redis"
) -> None:
    client.force_login(staff)
    data = {**QUEUE, "action": "pause", "seen": "open"}

    assert getattr(client, method)(reverse("queues-switch"), data).status_code == 403
    page = client.get(reverse("queues"))
    assert page.status_code == 200
    assert "data-action" not in page.text
    assert "You may look but not switch" in page.text
    assert busy.hgetall(SWITCH) == {}
    assert not OperatorAction.objects.exists()


def test_staff_with_the_permission_switch(client: Client, staff: User, busy: "Redis") -> None:
    staff.user_permissions.add(Permission.objects.get(codename="switch_traffic"))
    client.force_login(staff)

    confirm(client, "pause")

    assert busy.hgetall(SWITCH) == {FIELD: "paused"}
    assert OperatorAction.objects.get().operator_name == "anna"


@pytest.mark.parametrize("is_staff", [True, False])
def test_a_stranger_switches_nothing(is_staff: bool, client: Client, busy: "Redis", db: None) -> None:
    if not is_staff:
        client.force_login(User.objects.create_user("customer"))

    answer = confirm(client, "pause")

    assert answer.status_code == 302
    assert reverse("admin:login") in answer["Location"]
    assert busy.hgetall(SWITCH) == {}


def test_a_form_from_elsewhere_is_refused(admin_user: User, busy: "Redis") -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)

    assert confirm(client, "pause").status_code == 403
    assert busy.hgetall(SWITCH) == {}


def test_a_post_without_what_was_seen_is_no_confirmation(admin_client: Client, busy: "Redis") -> None:
    assert admin_client.post(reverse("queues-switch"), {**QUEUE, "action": "pause"}).status_code == 404
    assert busy.hgetall(SWITCH) == {}


@pytest.mark.parametrize(
    "ask",
    [
        {"kind": "queue", "target": "other:p2", "action": "pause"},
        {"kind": "queue", "target": f"{MODEL}:p9", "action": "pause"},
        {"kind": "worker", "target": "worker-9", "action": "pause"},
        {"kind": "tenant", "target": "acme", "action": "pause"},
        {"kind": "queue", "target": f"{MODEL}:p2", "action": "flush"},
    ],
)
def test_what_is_not_there_is_not_switched(ask: dict[str, str], admin_client: Client, busy: "Redis") -> None:
    assert admin_client.get(reverse("queues-switch"), ask).status_code == 404
    assert admin_client.post(reverse("queues-switch"), {**ask, "seen": "open"}).status_code == 404
    assert busy.hgetall(SWITCH) == {}


def test_a_worker_that_is_gone_can_still_be_opened(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause", kind="worker", target="worker-0")
    busy.delete("sl:worker:worker-0")

    confirm(admin_client, "open", seen="paused", kind="worker", target="worker-0")

    assert busy.hgetall(SWITCH) == {}


@pytest.mark.parametrize("method", ["get", "post"])
def test_without_valkey_nothing_is_claimed_to_be_done(
    method: str, admin_client: Client, settings: Settings, free_port: int
) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port}")
    data = {**QUEUE, "action": "pause", "seen": "open"}

    answer = getattr(admin_client, method)(reverse("queues-switch"), data)

    assert answer.status_code == 503
    assert "Valkey does not answer" in answer.text


def test_a_store_that_refuses_the_write_leaves_a_row_that_says_so(admin_client: Client, busy: "Redis") -> None:
    busy.config_set("maxmemory", "1")
    try:
        answer = confirm(admin_client, "pause")
    finally:
        busy.config_set("maxmemory", "0")

    assert answer.status_code == 503
    assert OperatorAction.objects.get().outcome == "failed"


def test_records_can_only_be_read(admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause", reason="engine update")
    row = OperatorAction.objects.get()
    change = reverse("admin:gateway_admin_operatoraction_change", args=[row.pk])

    assert admin_client.get(change).status_code == 200
    assert admin_client.post(change, {"reason": "other"}).status_code == 403
    assert admin_client.get(reverse("admin:gateway_admin_operatoraction_add")).status_code == 403
    delete = reverse("admin:gateway_admin_operatoraction_delete", args=[row.pk])
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    row.refresh_from_db()
    assert row.reason == "engine update"


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=anna", False),
        ("q=admin", True),
        ("q=ENGINE", True),
        ("action__exact=pause", True),
        ("kind__exact=worker", False),
    ],
)
def test_records_are_found_by(query: str, found: bool, admin_client: Client, busy: "Redis") -> None:
    confirm(admin_client, "pause", reason="engine update")

    text = admin_client.get(f"{reverse('admin:gateway_admin_operatoraction_changelist')}?{query}").text

    assert ("engine update" in text) is found


def test_a_record_outlives_its_operator(admin_client: Client, admin_user: User, busy: "Redis") -> None:
    confirm(admin_client, "pause")

    admin_user.delete()

    row = OperatorAction.objects.get()
    assert (row.operator, row.operator_name) == (None, "admin")
