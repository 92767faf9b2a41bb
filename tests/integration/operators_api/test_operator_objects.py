"""Tenants, plans, keys and prices: made, found, changed by ETag, kept where they must be."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from gateway_admin.roles import Role
from tenants.keys import key_digest
from tenants.models import ApiKey, Plan, Price, Tenant
from tenants.provision import create_key
from tests.integration.operators_api.conftest import Caller, Rows, in_session, make_user


def test_a_tenant_is_made_found_and_shown(admin: Caller, rows: Rows) -> None:
    made = admin("POST", "tenants", {"slug": "initech", "name": "Initech", "plan": "gold"})

    assert made.status_code == 201
    shown = admin.get("tenants/initech")
    assert shown == made.json()
    assert shown["plan"] == "gold"
    assert shown["active"] is True
    assert [row["slug"] for row in admin.get("tenants", search="init")["results"]] == ["initech"]
    assert [row["slug"] for row in admin.get("tenants", ordering="-slug")["results"]] == ["initech", "acme"]
    assert admin.get("tenants", active="false")["count"] == 0


def test_pages_are_bounded_and_hold_every_row_once(admin: Caller, rows: Rows) -> None:
    Tenant.objects.bulk_create([Tenant(slug=f"t{n}", name="x", plan=rows.plan) for n in range(24)])
    seen: list[str] = []
    page = 1
    while page:
        found = admin.get("tenants", page_size="10", page=str(page))
        assert found["count"] == 25
        assert len(found["results"]) <= 10
        seen += [row["slug"] for row in found["results"]]
        page = page + 1 if found["next"] else 0

    assert sorted(seen) == sorted(Tenant.objects.values_list("slug", flat=True))
    assert len(seen) == 25
    Tenant.objects.bulk_create([Tenant(slug=f"u{n}", name="x", plan=rows.plan) for n in range(600)])
    assert len(admin.get("tenants", page_size="100000")["results"]) == 500


def test_a_change_needs_the_state_that_was_read(admin: Caller, rows: Rows) -> None:
    etag = admin("GET", "tenants/acme")["ETag"]
    assert admin("PATCH", "tenants/acme", {"name": "first"}).status_code == 428
    first = admin("PATCH", "tenants/acme", {"name": "first"}, {"If-Match": etag})
    assert first.status_code == 200
    assert first["ETag"] == admin("GET", "tenants/acme")["ETag"] != etag

    late = admin("PATCH", "tenants/acme", {"name": "second"}, {"If-Match": etag})

    assert late.status_code == 412
    assert "read it" in late.json()["error"]["message"].lower()
    assert Tenant.objects.get().name == "first"
    assert admin("DELETE", "tenants/acme", headers={"If-Match": etag}).status_code == 412
    assert admin("PATCH", "tenants/acme", {"name": "third"}, {"If-Match": "*"}).status_code == 200


def test_who_holds_the_copy_gets_304_until_something_changes(admin: Caller, rows: Rows) -> None:
    etag = admin("GET", "tenants/acme")["ETag"]
    held = {"If-None-Match": f'"other", {etag}'}
    unchanged = admin("GET", "tenants/acme", headers=held)
    assert unchanged.status_code == 304
    assert unchanged.content == b""
    assert unchanged["ETag"] == etag

    rows.plan.name = "platinum"  # shown with the tenant, though the tenant itself stays
    rows.plan.save()

    assert admin("GET", "tenants/acme", headers=held).json()["plan"] == "platinum"
    assert admin("PATCH", "tenants/acme", {"name": "x"}, {"If-Match": etag}).status_code == 200


def test_names_that_are_taken_and_slugs_that_would_change_are_refused(admin: Caller, rows: Rows) -> None:
    taken = admin("POST", "tenants", {"slug": "acme", "name": "x", "plan": "gold"})
    moved = admin.change("PATCH", "tenants/acme", {"slug": "other"})

    for response in (taken, moved):
        assert response.status_code == 400
        assert list(response.json()["error"]["fields"]) == ["slug"]
    assert admin.change("PATCH", "tenants/acme", {"slug": "acme", "name": "y"}).status_code == 200


def test_what_is_billed_cannot_be_deleted_and_the_answer_says_what_to_do(admin: Caller, rows: Rows) -> None:
    advice = {
        "tenants/acme": "Switch it off",
        f"plans/{rows.plan.pk}": "another one first",
        f"keys/{rows.key.pk}": "Revoke it",
        f"prices/{rows.price.pk}": "Make a new one",
    }
    for path, words in advice.items():
        response = admin.change("DELETE", path)
        assert response.status_code == 409, path
        assert words in response.json()["error"]["message"]


def test_what_was_never_used_can_be_deleted(admin: Caller, rows: Rows) -> None:
    plan = Plan.objects.create(name="unused")
    tenant = Tenant.objects.create(slug="empty", name="Empty", plan=rows.plan)
    key, _text = create_key(tenant, "never used")
    for path in (f"plans/{plan.pk}", f"keys/{key.pk}", "tenants/empty", f"prices/{rows.later.pk}"):
        assert admin.change("DELETE", path).status_code == 204, path
        assert admin("GET", path).status_code == 404


def test_a_limit_whose_name_is_misspelt_is_refused(admin: Caller, rows: Rows) -> None:
    response = admin("POST", "plans", {"name": "x", "request_per_minute": 5})
    assert response.status_code == 400
    assert list(response.json()["error"]["fields"]) == ["request_per_minute"]
    assert not Plan.objects.filter(name="x").exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": "nan"},
        {"weight": "1e999"},
        {"max_concurrent": 0},
        {"requests_per_day": 10**30},
        {"cost_per_month": "0.001"},
        {"best_class": "p9"},
        {"retention_hours": 721},
        {"allowed_models": ["x" * 201]},
        {"tokens_per_month": 10, "tokens_per_month_soft": 11},
        {"cost_per_month_soft": "100.01"},
    ],
)
def test_a_plan_with_a_value_out_of_bounds_is_refused(wrong: dict[str, Any], admin: Caller, rows: Rows) -> None:
    assert admin.change("PATCH", f"plans/{rows.plan.pk}", wrong).status_code == 400
    rows.plan.refresh_from_db()
    assert rows.plan.weight == 1
    assert rows.plan.max_concurrent == 8


def test_the_text_of_a_key_is_shown_once_and_works(admin: Caller, rows: Rows) -> None:
    body = {
        "tenant": "acme",
        "name": "batch",
        "scopes": ["inference"],
        "allowed_addresses": ["203.0.113.7/24", "2001:db8::1"],
        "requests_per_minute": 5,
        "expires_at": (timezone.now() + timedelta(days=1)).isoformat(),
    }
    made = admin("POST", "keys", body).json()

    key = ApiKey.objects.get(pk=made["id"])
    assert key.digest == key_digest(made["key"]).hex()
    assert key.requests_per_minute == 5
    assert key.allowed_addresses == ["203.0.113.0/24", "2001:db8::1/128"]
    assert key.scopes == ["inference"]
    shown = admin.get(f"keys/{key.pk}")
    assert "key" not in shown
    assert shown["prefix"] == key.prefix
    assert shown["state"] == "active"
    assert made["key"] not in str(shown)
    assert key.digest not in str(made)


def test_a_rotated_keys_successor_may_do_the_same_and_the_old_one_ends(admin: Caller, rows: Rows) -> None:
    rows.key.scopes, rows.key.tokens_per_minute = ["usage"], 7
    rows.key.save()

    new = admin("POST", f"keys/{rows.key.pk}/rotate", {"grace_s": 0}).json()

    assert (new["scopes"], new["tokens_per_minute"]) == (["usage"], 7)
    assert new["id"] != rows.key.pk
    assert admin.get(f"keys/{rows.key.pk}")["state"] == "revoked"
    assert ApiKey.objects.get(digest=key_digest(new["key"]).hex()).pk == new["id"]
    assert admin("POST", f"keys/{rows.key.pk}/rotate", {}).status_code == 409


def test_a_key_is_revoked_at_once_and_again_without_harm(admin: Caller, rows: Rows) -> None:
    first = admin("POST", f"keys/{rows.key.pk}/revoke", {}).json()
    assert first["state"] == "revoked"
    assert admin("POST", f"keys/{rows.key.pk}/revoke").json()["revoked_at"] == first["revoked_at"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"scopes": []},
        {"scopes": ["everything"]},
        {"allowed_addresses": ["300.1.1.1"]},
        {"expires_at": "2020-01-01T00:00:00Z"},
        {"tenant": "other"},
        {"digest": "0" * 64},
        {"key": "sk-sluice-x"},
    ],
)
def test_a_key_takes_no_wrong_value_and_no_secret(wrong: dict[str, Any], admin: Caller, rows: Rows) -> None:
    Tenant.objects.create(slug="other", name="Other", plan=rows.plan)
    response = admin.change("PATCH", f"keys/{rows.key.pk}", wrong)
    unchanged = ApiKey.objects.get(pk=rows.key.pk)
    # What can only be read may be sent back with the rest; it changes nothing.
    assert response.status_code == 400
    assert (unchanged.digest, unchanged.tenant_id) == (rows.key.digest, rows.tenant.pk)


def test_keys_are_found_by_tenant_prefix_name_and_end(admin: Caller, rows: Rows) -> None:
    other = Tenant.objects.create(slug="other", name="Other", plan=rows.plan)
    theirs, _text = create_key(other, "notebook")
    theirs.revoked_at = timezone.now()
    theirs.save()

    def found(**query: str) -> list[int]:
        return [row["id"] for row in admin.get("keys", **query)["results"]]

    assert found(tenant="other") == found(search="noteb") == found(search=theirs.prefix) == [theirs.pk]
    assert found(ended="true") == [theirs.pk]
    assert found(ended="false") == [rows.key.pk]
    assert admin.get("keys", tenant="acme")["results"][0]["last_used_at"] == "2026-11-03T13:19:00.900000Z"


def test_a_price_that_has_begun_stays_and_a_coming_one_can_be_changed(admin: Caller, rows: Rows) -> None:
    refused = admin.change("PATCH", f"prices/{rows.price.pk}", {"output_per_million": "1"})
    assert refused.status_code == 409
    assert "later valid_from" in refused.json()["error"]["message"]

    assert admin.change("PATCH", f"prices/{rows.later.pk}", {"output_per_million": "1.125"}).status_code == 200
    assert Price.objects.get(pk=rows.later.pk).output_per_million == Decimal("1.125")
    past = {"valid_from": "2026-01-01T00:00:00Z"}
    assert admin.change("PATCH", f"prices/{rows.later.pk}", past).status_code == 400


def test_a_viewer_sees_of_a_webhook_where_it_leads_and_not_its_secret(
    viewer: Caller, admin: Caller, rows: Rows
) -> None:
    rows.tenant.alert_webhook = "https://hooks.example.com/services/T0/s3cret"
    rows.tenant.save()

    assert viewer.get("tenants/acme")["alert_webhook"] == "https://hooks.example.com/***"
    assert admin.get("tenants/acme")["alert_webhook"] == rows.tenant.alert_webhook


def test_the_browsable_pages_open_for_a_person(rows: Rows) -> None:
    caller = in_session(make_user("ada", Role.ADMIN))
    for path in (
        "tenants",
        "tenants/acme",
        "plans",
        "keys",
        "prices",
        "usage/records",
        "adjustments",
        "audit-log",
        "me",
    ):
        page = caller("GET", path, headers={"Accept": "text/html"})
        assert page.status_code == 200, path
        assert page["Content-Type"].startswith("text/html")
        assert b"https://" not in page.content.replace(b"https://www.django-rest-framework.org/", b""), path
