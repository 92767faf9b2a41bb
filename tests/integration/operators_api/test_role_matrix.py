"""Every address and method of the API against every role, by session and by token.

The addresses come from the URL resolver: a new one without a line in the table fails.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction
from django.test import Client
from redis import Redis

from gateway_admin.api.urls import urlpatterns
from gateway_admin.models import AutomationToken
from gateway_admin.roles import Role
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_user, with_token

ALL = frozenset(Role)
WRITES = frozenset({Role.OPERATOR, Role.ADMIN})
BILLS = frozenset({Role.BILLING, Role.ADMIN})
ANY_USER = frozenset({*Role, "nobody"})

NEW_PRICE = {"model": "m2", "input_per_million": "1", "cached_input_per_million": "1", "output_per_million": "2"}
NEW_ADJUSTMENT = {"tenant": "acme", "month": "2026-11", "cost": "-1.50", "reason": "a credit"}


@dataclass(frozen=True)
class Line:
    """Who may, and a request that succeeds: its address for the rows at hand, query, body and status."""

    may: frozenset[Any]
    path: Callable[[Rows], str]
    status: int = 200
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    needs_session: bool = False


def at(path: str) -> Callable[[Rows], str]:
    return lambda rows: path


TABLE: dict[tuple[str, str], Line] = {
    ("tenants", "GET"): Line(ALL, at("tenants")),
    ("tenants", "POST"): Line(WRITES, at("tenants"), 201, {"slug": "new", "name": "New", "plan": "gold"}),
    ("tenants/<slug:slug>", "GET"): Line(ALL, at("tenants/acme")),
    ("tenants/<slug:slug>", "PATCH"): Line(WRITES, at("tenants/acme"), body={"name": "Acme & Co"}),
    ("tenants/<slug:slug>", "DELETE"): Line(WRITES, at("tenants/acme"), 409),  # it has usage
    ("tenants/<slug:slug>/limits", "GET"): Line(ALL, at("tenants/acme/limits")),
    ("tenants/<slug:slug>/invoice", "GET"): Line(ALL, at("tenants/acme/invoice"), query=(("month", "2026-11"),)),
    ("plans", "GET"): Line(ALL, at("plans")),
    ("plans", "POST"): Line(WRITES, at("plans"), 201, {"name": "silver"}),
    ("plans/<row_id:pk>", "GET"): Line(ALL, lambda rows: f"plans/{rows.plan.pk}"),
    ("plans/<row_id:pk>", "PATCH"): Line(WRITES, lambda rows: f"plans/{rows.plan.pk}", body={"weight": 2}),
    ("plans/<row_id:pk>", "DELETE"): Line(WRITES, lambda rows: f"plans/{rows.plan.pk}", 409),  # it is in use
    ("keys", "GET"): Line(ALL, at("keys")),
    ("keys", "POST"): Line(WRITES, at("keys"), 201, {"tenant": "acme", "name": "batch"}),
    ("keys/<row_id:pk>", "GET"): Line(ALL, lambda rows: f"keys/{rows.key.pk}"),
    ("keys/<row_id:pk>", "PATCH"): Line(WRITES, lambda rows: f"keys/{rows.key.pk}", body={"name": "shop"}),
    ("keys/<row_id:pk>", "DELETE"): Line(WRITES, lambda rows: f"keys/{rows.key.pk}", 409),  # it was used
    ("keys/<row_id:pk>/rotate", "POST"): Line(WRITES, lambda rows: f"keys/{rows.key.pk}/rotate", 201, {"grace_s": 60}),
    ("keys/<row_id:pk>/revoke", "POST"): Line(WRITES, lambda rows: f"keys/{rows.key.pk}/revoke", body={}),
    ("hot-keys", "GET"): Line(ALL, at("hot-keys")),
    ("hot-keys", "POST"): Line(WRITES, at("hot-keys"), 201, {"kind": "answer", "key": "0" * 32, "state": "pinned"}),
    ("hot-keys/<row_id:pk>", "GET"): Line(ALL, at("hot-keys/999"), 404),
    ("hot-keys/<row_id:pk>/pin", "POST"): Line(WRITES, at("hot-keys/999/pin"), 404, {}),
    ("hot-keys/<row_id:pk>/ban", "POST"): Line(WRITES, at("hot-keys/999/ban"), 404, {}),
    ("hot-keys/<row_id:pk>/release", "POST"): Line(WRITES, at("hot-keys/999/release"), 404, {}),
    ("batches", "GET"): Line(ALL, at("batches")),
    ("batches/<batch_id:public_id>", "GET"): Line(ALL, lambda rows: f"batches/{rows.batch.public_id}"),
    ("batches/<batch_id:public_id>/cancel", "POST"): Line(
        WRITES, lambda rows: f"batches/{rows.batch.public_id}/cancel", body={"reason": "the customer asked for it"}
    ),
    ("files", "GET"): Line(ALL, at("files")),
    ("prices", "GET"): Line(ALL, at("prices")),
    ("prices", "POST"): Line(BILLS, at("prices"), 201, NEW_PRICE),
    ("prices/<row_id:pk>", "GET"): Line(ALL, lambda rows: f"prices/{rows.price.pk}"),
    ("prices/<row_id:pk>", "PATCH"): Line(
        BILLS, lambda rows: f"prices/{rows.later.pk}", body={"output_per_million": "3"}
    ),
    ("prices/<row_id:pk>", "DELETE"): Line(BILLS, lambda rows: f"prices/{rows.later.pk}", 204),
    ("usage/records", "GET"): Line(ALL, at("usage/records")),
    ("usage/records/<request_id:request_id>", "GET"): Line(
        ALL, lambda rows: f"usage/records/{rows.usage[0].request_id}"
    ),
    ("usage/aggregate", "GET"): Line(ALL, at("usage/aggregate"), query=(("group_by", "tenant,day"),)),
    ("usage/export", "GET"): Line(BILLS, at("usage/export"), query=(("format", "csv"),)),
    ("adjustments", "GET"): Line(ALL, at("adjustments")),
    ("adjustments", "POST"): Line(BILLS, at("adjustments"), 201, NEW_ADJUSTMENT),
    ("adjustments/<row_id:pk>", "GET"): Line(ALL, at("adjustments/999"), 404),
    ("audit-log", "GET"): Line(ALL, at("audit-log")),
    ("audit-log/<row_id:pk>", "GET"): Line(ALL, at("audit-log/999999"), 404),
    ("tokens", "GET"): Line(ANY_USER, at("tokens")),
    # A role that the caller does not hold is refused by what the token may, see test_tokens.py.
    ("tokens", "POST"): Line(ALL, at("tokens"), 201, {"name": "ci", "role": "viewer"}, needs_session=True),
    ("tokens/<row_id:pk>", "GET"): Line(ANY_USER, at("tokens/999999"), 404),
    ("tokens/<row_id:pk>", "DELETE"): Line(ANY_USER, at("tokens/999999"), 404),
    ("me", "GET"): Line(ANY_USER, at("me")),
    ("schema", "GET"): Line(ANY_USER, at("schema")),
    ("docs", "GET"): Line(ANY_USER, at("docs")),
}
OF_A_VIEW = ("get", "post", "put", "patch", "delete")


def addresses() -> Iterator[tuple[str, str]]:
    """All addresses with their methods, as the resolver knows them; the last pattern takes what is none."""
    for pattern in urlpatterns[:-1]:
        view: Any = pattern.callback
        methods = getattr(view, "actions", None) or [name for name in OF_A_VIEW if hasattr(view.view_class, name)]
        for method in set(methods) - {"head"}:
            yield str(pattern.pattern), method.upper()


def test_every_address_has_a_line_in_the_table() -> None:
    assert set(addresses()) == set(TABLE)


def statuses(call: Caller, rows: Rows) -> dict[tuple[str, str], int]:
    found = {}
    for (address, method), line in TABLE.items():
        headers = {"If-Match": "*"} if method in ("PATCH", "DELETE") else {}
        mark = transaction.savepoint()
        response = call(method, line.path(rows), line.body, headers, **dict(line.query))
        if response.streaming:
            b"".join(response.streaming_content)  # type: ignore[attr-defined]  # to its end, which makes room again
        transaction.savepoint_rollback(mark)
        found[address, method] = response.status_code
    return found


def expected(role: Any, *, by_token: bool) -> dict[tuple[str, str], int]:
    return {
        address: line.status if role in line.may and not (by_token and line.needs_session) else 403
        for address, line in TABLE.items()
    }


def test_nobody_gets_in_without_a_session_or_token(rows: Rows, valkey: "Redis") -> None:
    assert set(statuses(Caller(Client()), rows).values()) == {401}
    assert set(statuses(Caller(Client(), "sluice-op-" + "0" * 64), rows).values()) == {401}


@pytest.mark.parametrize("role", list(Role))
def test_a_person_may_what_the_role_may(role: Role, rows: Rows, valkey: "Redis") -> None:
    caller = in_session(make_user("person", role))
    assert statuses(caller, rows) == expected(role, by_token=False)


def test_a_person_without_a_role_sees_only_who_they_are(rows: Rows, valkey: "Redis") -> None:
    assert statuses(in_session(make_user("person")), rows) == expected("nobody", by_token=False)


def test_a_superuser_may_what_admins_may(rows: Rows, valkey: "Redis") -> None:
    root = User.objects.create_superuser("root", password="a password of some length")
    assert statuses(in_session(root), rows) == expected(Role.ADMIN, by_token=False)


@pytest.mark.parametrize("role", list(Role))
def test_a_token_may_what_its_role_may_even_if_its_user_may_more(role: Role, rows: Rows, valkey: "Redis") -> None:
    root = User.objects.create_superuser("root", password="a password of some length")
    assert statuses(with_token(root, role), rows) == expected(role, by_token=True)


def test_a_token_may_no_more_than_its_user_may_now(rows: Rows, valkey: "Redis") -> None:
    user = make_user("person", Role.ADMIN)
    call = with_token(user, Role.ADMIN)
    user.groups.set([])

    assert statuses(call, rows) == expected("nobody", by_token=True)
    assert AutomationToken.objects.get().role == Role.ADMIN
