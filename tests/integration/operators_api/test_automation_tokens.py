"""Tokens for programs: made by people or on the command line, no stronger than who made them, and ended."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone

from gateway_admin.models import AutomationToken
from gateway_admin.roles import Role
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_user, with_token


def by(text: str) -> Caller:
    return Caller(Client(), text)


def test_a_token_is_shown_once_known_by_its_beginning_and_works(rows: Rows) -> None:
    caller = in_session(make_user("ben", Role.BILLING))
    made = caller("POST", "tokens", {"name": "nightly", "role": "billing", "days": 30})

    assert made.status_code == 201
    text = made.json()["token"]
    assert text.startswith("sluice-op-")
    assert text.startswith(made.json()["prefix"])
    shown = caller.get(f"tokens/{made.json()['id']}")
    assert "token" not in shown
    assert text[len(shown["prefix"]) :] not in str(shown)
    stored = AutomationToken.objects.get()
    assert text not in str(vars(stored))
    assert timedelta(days=29) < stored.expiry - timezone.now() < timedelta(days=30)
    me = by(text).get("me")
    assert (me["username"], me["roles"], me["token"]["name"]) == ("ben", ["viewer", "billing"], "nightly")


def test_a_token_may_be_weaker_than_its_user_and_never_stronger(rows: Rows) -> None:
    caller = in_session(make_user("otto", Role.OPERATOR))
    assert caller("POST", "tokens", {"name": "x", "role": "viewer"}).status_code == 201
    for role in (Role.BILLING, Role.ADMIN):
        assert caller("POST", "tokens", {"name": "x", "role": role}).status_code == 403
    both = in_session(make_user("both", Role.OPERATOR, Role.BILLING))
    assert both("POST", "tokens", {"name": "x", "role": "billing"}).status_code == 201
    assert both("POST", "tokens", {"name": "x", "role": "admin"}).status_code == 403


def test_one_token_makes_no_other(rows: Rows) -> None:
    response = with_token(make_user("ada", Role.ADMIN), Role.ADMIN)("POST", "tokens", {"name": "x", "role": "viewer"})
    assert response.status_code == 403
    assert AutomationToken.objects.count() == 1


def test_everybody_sees_and_revokes_their_own_and_admins_all(rows: Rows) -> None:
    ben, ada = make_user("ben", Role.BILLING), make_user("ada", Role.ADMIN)
    with_token(ben, Role.VIEWER), with_token(ada, Role.ADMIN)
    of_ben, of_ada = AutomationToken.objects.get(user=ben), AutomationToken.objects.get(user=ada)
    as_ben, as_ada = in_session(ben), in_session(ada)

    assert [row["id"] for row in as_ben.get("tokens")["results"]] == [of_ben.pk]
    assert as_ben("DELETE", f"tokens/{of_ada.pk}").status_code == 404
    assert {row["user"] for row in as_ada.get("tokens")["results"]} == {"ada", "ben"}
    assert [row["id"] for row in as_ada.get("tokens", user="ben")["results"]] == [of_ben.pk]
    assert as_ada("DELETE", f"tokens/{of_ben.pk}").status_code == 204
    assert as_ben("DELETE", f"tokens/{of_ben.pk}").status_code == 404
    assert as_ada.get("tokens")["count"] == 1


@pytest.mark.parametrize("how", ["expired", "revoked", "user off", "changed"])
def test_a_token_that_has_ended_is_refused(how: str, rows: Rows) -> None:
    user = make_user("ben", Role.BILLING)
    call = with_token(user, Role.BILLING)
    assert call("GET", "me").status_code == 200
    token = AutomationToken.objects.get()
    if how == "expired":
        AutomationToken.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    elif how == "revoked":
        token.delete()
    elif how == "user off":
        User.objects.update(is_active=False)
    else:
        call = by(token.token_key + "0" * 59)
    assert call("GET", "me").status_code == 401


@pytest.mark.parametrize(
    "header", ["Token", "Token a b", "Token \xff\xfe", "Token sk-sluice-x", "Bearer x", "Basic eDp5"]
)
def test_what_is_no_token_is_refused(header: str, rows: Rows) -> None:
    assert Client().get("/api/v1/me", headers={"Authorization": header}).status_code == 401


@pytest.mark.parametrize(
    "wrong", [{"days": 0}, {"days": 367}, {"role": "root"}, {"name": ""}, {"user": "ada", "usr": 1}]
)
def test_a_token_without_a_sound_end_role_or_name_is_not_made(wrong: dict[str, Any], rows: Rows) -> None:
    body = {"name": "x", "role": "viewer", **wrong}
    assert in_session(make_user("ada", Role.ADMIN))("POST", "tokens", body).status_code == 400


def test_the_command_makes_a_token(rows: Rows) -> None:
    make_user("ci", Role.OPERATOR)
    out = StringIO()
    call_command(
        "token", "create", "--user", "ci", "--name", "deploys", "--role", "operator", "--days", "7", stdout=out
    )

    call = by(out.getvalue().strip())
    assert call("POST", "plans", {"name": "silver"}).status_code == 201
    assert call.get("me")["token"]["role"] == "operator"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--user", "nobody", "--name", "x"], "no user"),
        (["--user", "ci", "--name", "x", "--role", "admin"], "may not do all"),
        (["--user", "ci", "--name", "x", "--days", "0"], "--days"),
        (["--user", "ci", "--name", ""], "--name"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], words: str, rows: Rows) -> None:
    make_user("ci", Role.OPERATOR)
    with pytest.raises(CommandError, match=words):
        call_command("token", "create", *arguments)
    assert not AutomationToken.objects.exists()
