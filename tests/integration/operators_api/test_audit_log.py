"""Who did what: by pages, by session, by token, and by commands."""

from io import StringIO
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from gateway_admin.roles import Role
from tenants.provision import create_key
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_user, with_token


def last(viewer: Caller, **query: str) -> dict[str, Any]:
    found: dict[str, Any] = viewer.get("audit-log", **query)["results"][0]
    return found


def test_a_change_by_session_is_put_down_to_the_person(viewer: Caller, admin: Caller, rows: Rows) -> None:
    admin.change("PATCH", f"plans/{rows.plan.pk}", {"weight": 2, "max_concurrent": None})

    entry = last(viewer)
    assert (entry["by"], entry["token"], entry["remote_addr"]) == ("ada", "", "127.0.0.1")
    assert (entry["action"], entry["object_type"], entry["object_id"], entry["object"]) == (
        *("update", "plan"),
        rows.plan.pk,
        "gold",
    )
    assert entry["changes"] == {"weight": ["1.0", "2.0"], "max_concurrent": ["8", "None"]}
    assert viewer.get(f"audit-log/{entry['id']}") == entry


def test_a_change_by_token_is_put_down_to_its_user_and_names_the_token(viewer: Caller, rows: Rows) -> None:
    user = make_user("ci", Role.OPERATOR)
    with_token(user, Role.OPERATOR)("POST", f"keys/{rows.key.pk}/revoke", {})

    entry = last(viewer)
    assert (entry["by"], entry["token"], entry["object_type"]) == ("ci", "operator for tests", "apikey")
    assert LogEntry.objects.first().actor == user
    assert list(entry["changes"]) == ["revoked_at"]


def test_a_change_on_the_pages_is_put_down_to_the_person(viewer: Caller, rows: Rows) -> None:
    root = User.objects.create_superuser("root", password="a password of some length")
    client = Client()
    client.force_login(root)
    assert client.post(reverse("admin:tenants_apikey_revoke", args=[rows.key.pk])).status_code == 302

    assert last(viewer)["by"] == "root"


def test_a_change_by_a_command_is_put_down_to_the_command_line(viewer: Caller, rows: Rows) -> None:
    make_user("ci", Role.OPERATOR)
    call_command("token", "create", "--user", "ci", "--name", "deploys", stdout=StringIO())

    entry = last(viewer, object_type="automationtoken")
    assert (entry["by"], entry["action"], entry["remote_addr"]) == ("command line", "create", None)
    assert set(entry["changes"]) == {"user", "name", "role", "expiry"}


def test_one_request_after_another_is_put_down_to_its_own_caller(viewer: Caller, rows: Rows) -> None:
    for name in ("ann", "bob"):
        in_session(make_user(name, Role.OPERATOR)).change("PATCH", "tenants/acme", {"name": name})
    create_key(rows.tenant, "by nobody")

    found = viewer.get("audit-log")["results"]
    assert [entry["by"] for entry in found if entry["object_type"] in ("tenant", "apikey")][:3] == [
        *("command line", "bob"),
        "ann",
    ]


def test_who_a_deleted_user_was_is_still_known(viewer: Caller, rows: Rows) -> None:
    user = make_user("ann", Role.OPERATOR)
    in_session(user).change("PATCH", "tenants/acme", {"name": "x"})
    user.delete()
    assert [entry["by"] for entry in viewer.get("audit-log", by="ann")["results"]] == ["ann"]


def test_roles_given_and_passwords_changed_are_told_and_the_password_is_not(viewer: Caller, rows: Rows) -> None:
    user = make_user("ann", Role.OPERATOR)
    user.set_password("another password of some length")
    user.save()

    changes = [entry["changes"] for entry in viewer.get("audit-log", object_type="user")["results"]]
    assert {"password": ["***", "***"]} in changes
    assert {"groups": {"type": "m2m", "operation": "add", "objects": ["operator"]}} in changes
    assert user.password not in str(changes)


def test_a_forged_forwarding_header_is_not_believed(
    viewer: Caller, admin: Caller, rows: Rows, settings: Settings
) -> None:
    admin("POST", "plans", {"name": "x"}, {"X-Forwarded-For": "203.0.113.9"})
    assert last(viewer)["remote_addr"] == "127.0.0.1"


def test_the_log_is_searched_by_whom_what_and_when(viewer: Caller, admin: Caller, rows: Rows) -> None:
    admin("POST", "plans", {"name": "silver"})
    made = last(viewer, by="ada", action="create", object_type="plan")
    assert made["object"] == "silver"
    same = viewer.get("audit-log", object_type="plan", object_id=str(made["object_id"]))["results"]
    assert [entry["id"] for entry in same] == [made["id"]]
    assert viewer.get("audit-log", by="ada", end=made["at"])["results"] == []
    assert len(viewer.get("audit-log", by="ada", start=made["at"])["results"]) == 1


@pytest.mark.django_db
def test_migrating_again_puts_the_roles_right_and_leaves_other_groups_alone() -> None:
    from gateway_admin.roles import PERMISSIONS

    own = Group.objects.create(name="our own")
    own.permissions.set(Group.objects.get(name="billing").permissions.all()[:3])
    Group.objects.get(name="viewer").permissions.clear()
    Group.objects.get(name="billing").delete()

    call_command("migrate", verbosity=0)

    for role, names in PERMISSIONS.items():
        held = Group.objects.get(name=role).permissions.values_list("content_type__app_label", "codename")
        assert {f"{app}.{codename}" for app, codename in held} == names
    assert own.permissions.count() == 3
