"""Refusals have one shape, whatever is wrong."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.core.signals import request_finished
from django.db import OperationalError, close_old_connections
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from gateway_admin.api.errors import TYPES
from gateway_admin.api.streaming import Chunks
from gateway_admin.roles import Role
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_user, with_token


def refused(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.content
    assert response["Content-Type"] == "application/json"
    (error,) = response.json().values()
    assert set(error) == {"type", "message", "fields"}
    assert error["type"] == TYPES[status]
    assert error["message"]
    return dict(error)


def test_every_status_has_the_same_shape(admin: Caller, viewer: Caller, rows: Rows) -> None:
    plan = f"plans/{rows.plan.pk}"
    refused(admin("POST", "plans", {}), 400)
    unknown = refused(Caller(Client())("GET", "plans"), 401)
    assert unknown["fields"] == {}
    refused(viewer("POST", "plans", {"name": "x"}), 403)
    refused(admin("GET", "plans/987654"), 404)
    refused(admin("GET", "no/such/address"), 404)
    refused(admin("PUT", plan, {}), 405)
    refused(admin("OPTIONS", plan), 405)
    refused(admin("GET", plan, headers={"Accept": "application/xml"}), 406)
    refused(admin("GET", "usage/export", headers={"Accept": "application/xml"}), 406)
    refused(admin.change("DELETE", plan), 409)
    refused(admin("PATCH", plan, {}, {"If-Match": '"0-0"'}), 412)
    refused(admin("POST", "plans", {"name": "x" * 2_000_000}), 413)
    refused(admin("PATCH", plan, {}), 428)


def test_who_is_unknown_is_told_how_to_be_known() -> None:
    response = Client().get("/api/v1/plans")
    assert response["WWW-Authenticate"] == "Token"


def test_a_body_that_is_not_json_is_refused(admin: Caller) -> None:
    client = APIClient()
    user = make_user("otto", Role.OPERATOR)
    client.force_login(user)
    refused(client.post("/api/v1/plans", {"name": "x"}, format="multipart"), 415)
    deep = "[" * 100_000
    for text in ("{", deep, '{"name": NaN}', '{"name": "\\ud800"}', '"text"', "[]", '{"name": "\\u0000"}', "\ufffe"):
        refused(client.post("/api/v1/plans", text.encode(), content_type="application/json"), 400)


def test_several_wrong_fields_are_named_by_their_way(admin: Caller, rows: Rows) -> None:
    body = {"tenant": "nobody", "scopes": ["inference", "x"], "name": "", "max_concurrent": -1}
    error = refused(admin("POST", "keys", body), 400)
    assert set(error["fields"]) == {"tenant", "scopes.1", "name", "max_concurrent"}


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("tenants", {"plna": "gold"}, "plna"),
        ("tenants/acme", {"page": "1"}, "page"),
        ("usage/records", {"tenant": "nobody"}, "tenant"),
        ("usage/records", {"key": "9" * 30}, "key"),
        ("usage/records", {"start": "0001-01-01T00:00:00+14:00"}, "start"),
        ("usage/records", {"end": "yesterday"}, "end"),
        ("usage/records", {"outcome": "fine"}, "outcome"),
        ("usage/records", {"cursor": "x"}, "cursor"),
        ("usage/records", {"cursor": "cD15ZXN0ZXJkYXk="}, "cursor"),  # p=yesterday
        ("usage/records", {"cursor": "ö"}, "cursor"),
        ("usage/export", {"tennant": "acme"}, "tennant"),
        ("usage/aggregate", {"group_by": "tenant,colour"}, "group_by"),
        ("usage/aggregate", {"group_by": "hour,day"}, "group_by"),
        ("usage/aggregate", {"start": "2026-11-01T00:30:00Z"}, "start"),
        ("usage/aggregate", {"end": "9999-12-31T23:00:00Z"}, "end"),
        ("tenants/acme/invoice", {}, "month"),
        ("tenants/acme/invoice", {"month": "2026-13"}, "month"),
        ("tenants/acme/limits", {"key": "12345678"}, "key"),
        ("adjustments", {"month": "11-2026"}, "month"),
        ("audit-log", {"object_type": "secret"}, "object_type"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_named(
    path: str, query: dict[str, str], field: str, admin: Caller, rows: Rows
) -> None:
    assert list(refused(admin("GET", path, **query), 400)["fields"]) == [field]


def test_a_session_needs_its_csrf_token_and_an_automation_token_does_not(rows: Rows) -> None:
    user = make_user("ada", Role.ADMIN)
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    body = json.dumps({"name": "silver"})
    assert "CSRF" in refused(client.post("/api/v1/plans", body, content_type="application/json"), 403)["message"]

    assert with_token(user, Role.ADMIN)("POST", "plans", {"name": "silver"}).status_code == 201


def test_a_database_that_is_away_is_said_to_be(admin: Caller, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: object) -> None:
        raise OperationalError("no route to postgres://user:secret@host")

    monkeypatch.setattr("gateway_admin.api.base.OperatorsViewSet.row", away)
    assert "secret" not in refused(admin("GET", "tenants/acme"), 503)["message"]


def test_a_store_that_is_away_is_said_to_be(admin: Caller, rows: Rows, settings: Settings) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url="redis://127.0.0.1:1")
    refused(admin("GET", "tenants/acme/limits"), 503)


def test_answers_are_in_english_whatever_the_browser_speaks(rows: Rows) -> None:
    caller = in_session(make_user("ada", Role.ADMIN))
    response = caller("POST", "plans", {}, {"Accept-Language": "zh-hans"})
    assert response.json()["error"]["fields"] == {"name": ["This field is required."]}


def test_two_exports_may_run_at_once_and_a_third_must_wait(admin: Caller, rows: Rows) -> None:
    running = [admin("GET", "usage/export") for _ in range(2)]
    third = admin("GET", "usage/export")
    assert refused(third, 429)
    assert int(third["Retry-After"]) > 0

    request_finished.disconnect(close_old_connections)  # as the test client does around its requests
    running[0].close()  # what a server does when the client leaves before the first byte
    request_finished.connect(close_old_connections)
    b"".join(running[1].streaming_content)
    told: list[bool] = []
    chunks = Chunks(iter([b"a", b"b"]), lambda: told.append(True))
    del chunks  # what becomes of an answer whose client left while it was being made
    assert told == [True]
    again = [admin("GET", "usage/export") for _ in range(2)]
    assert [response.status_code for response in again] == [200, 200]
    for response in again:
        b"".join(response.streaming_content)
