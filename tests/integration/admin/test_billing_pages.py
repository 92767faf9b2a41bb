"""Prices, adjustments, usage with its cost, and what keys may."""

import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from redis import Redis

from tenants.admin.figures import exact_money, money
from tenants.models import NANO, Adjustment, ApiKey, Price, UsageRecord
from tests.integration.admin.billing import SPENT_NANO, Customer, add_sums, fill_counts, make_customer

AMOUNTS = {"input_per_million": "0.5", "cached_input_per_million": "0.1", "output_per_million": "1.5"}
FOR_ALL = {"model": "m1", "model_version": "", "qos_class": ""}
NO_TIME = {"valid_from_0": "", "valid_from_1": ""}


@pytest.fixture
def customer(db: None) -> Customer:
    return make_customer()


@pytest.fixture
def price(db: None) -> Price:
    return Price.objects.create(model="m1", valid_from=timezone.now() - timedelta(days=1), **AMOUNTS)


@pytest.mark.parametrize(
    ("nano", "read", "exact"),
    [
        (0, "0.00 USD", "0.00 USD"),
        (1_234_567_890_123, "1,234.57 USD", "1234.567890123 USD"),
        (-25 * NANO, "-25.00 USD", "-25.00 USD"),
        (1_500_000, "0.0015 USD", "0.0015 USD"),
        (200_000_000, "0.20 USD", "0.20 USD"),
        (1, "<0.000001 USD", "0.000000001 USD"),
        (-1, "-<0.000001 USD", "-0.000000001 USD"),
        (10**18 + 1, "1,000,000,000.00 USD", "1000000000.000000001 USD"),
    ],
)
def test_money_is_rounded_for_reading_and_exact_for_bills(nano: int, read: str, exact: str) -> None:
    assert (money(nano), exact_money(nano)) == (read, exact)


def test_a_price_without_a_time_begins_at_once(admin_client: Client, db: None) -> None:
    admin_client.post(reverse("admin:tenants_price_add"), {**FOR_ALL, **AMOUNTS, **NO_TIME})

    assert Price.objects.get().has_begun


def test_a_price_does_not_begin_in_the_past(admin_client: Client, db: None) -> None:
    past = {"valid_from_0": "2026-01-01", "valid_from_1": "00:00:00"}

    answer = admin_client.post(reverse("admin:tenants_price_add"), {**FOR_ALL, **AMOUNTS, **past})

    assert "It must lie ahead" in answer.text
    assert not Price.objects.exists()


def test_a_begun_price_is_read_only(admin_client: Client, price: Price) -> None:
    change = reverse("admin:tenants_price_change", args=[price.pk])

    assert admin_client.get(change).status_code == 200
    assert admin_client.post(change, {**FOR_ALL, **AMOUNTS, "output_per_million": "9"}).status_code == 403
    assert admin_client.post(reverse("admin:tenants_price_delete", args=[price.pk])).status_code == 403
    price.refresh_from_db()
    assert price.output_per_million == Decimal("1.5")


def test_a_price_is_replaced_by_a_successor_with_its_values(admin_client: Client, price: Price) -> None:
    form = admin_client.get(reverse("admin:tenants_price_replace", args=[price.pk]), follow=True)
    initial = form.context["adminform"].form.initial
    assert (initial["model"], Decimal(initial["output_per_million"])) == ("m1", Decimal("1.5"))

    admin_client.post(reverse("admin:tenants_price_add"), {**FOR_ALL, **AMOUNTS, "output_per_million": "2", **NO_TIME})

    text = admin_client.get(reverse("admin:tenants_price_changelist")).text
    assert Price.objects.count() == 2
    assert "Replaced" in text
    assert "In force" in text


def adjust(client: Client, customer: Customer, **asked: Any) -> Any:
    month = timezone.now().date().replace(day=1).isoformat()
    data = {"tenant": customer.tenant.pk, "month": month, "amount": "", "tokens": "0", "reason": "outage", **asked}
    return client.post(reverse("admin:tenants_adjustment_add"), data)


@pytest.mark.django_db(transaction=True)
def test_an_adjustment_is_typed_as_money_and_counts_at_once(
    admin_client: Client, transactional_db: None, valkey: "Redis"
) -> None:
    customer = make_customer()
    fill_counts(valkey, customer)

    assert adjust(admin_client, customer, amount="-12.5", tokens="-300").status_code == 302

    row = Adjustment.objects.get()
    assert (row.cost_nano, row.tokens, row.made_by_name) == (-12_500_000_000, -300, "admin")
    month = valkey.hgetall(f"sl:spent:t:{customer.tenant.pk}:m{timezone.now():%Y%m}")
    assert (int(month["c"]), int(month["a"])) == (SPENT_NANO - 12_500_000_000, -300)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "It changes nothing"),
        ({"amount": "1.0000000001"}, "no more than 9 decimal places"),
        ({"amount": "1", "reason": ""}, "required"),
        ({"amount": "1", "month": "1999-01-01"}, "Select a valid choice"),
        ({"amount": "much"}, "Enter a number"),
    ],
)
def test_an_adjustment_that_cannot_be_meant_is_refused(
    asked: dict[str, str], said: str, admin_client: Client, customer: Customer
) -> None:
    assert said in adjust(admin_client, customer, **asked).text
    assert not Adjustment.objects.exists()


def test_an_adjustment_is_never_edited(admin_client: Client, customer: Customer) -> None:
    adjust(admin_client, customer, amount="3")
    row = Adjustment.objects.get()

    shown = admin_client.get(reverse("admin:tenants_adjustment_change", args=[row.pk]))
    assert "3.00 USD" in shown.text
    for page in ("change", "delete"):
        assert admin_client.post(reverse(f"admin:tenants_adjustment_{page}", args=[row.pk])).status_code == 403


def test_usage_shows_cost_version_and_key(admin_client: Client, rows: Any) -> None:
    usage = reverse("admin:tenants_usagerecord_changelist")

    text = admin_client.get(f"{usage}?key__id__exact={rows.key.pk}").text
    none = admin_client.get(f"{usage}?key__id__exact={rows.key.pk + 1}").text

    assert "0.0000015 USD" in text
    assert "1.0.0+abc" in text
    assert "web shop" in text
    assert rows.usage.request_id not in none


def test_usage_of_a_key_that_was_deleted_stays_in_the_lists(admin_client: Client, rows: Any) -> None:
    ApiKey.objects.filter(pk=rows.key.pk)._raw_delete("default")

    for page in ("usagerecord", "usagerollup"):
        assert f"#{rows.key.pk}" in admin_client.get(reverse(f"admin:tenants_{page}_changelist")).text
    assert admin_client.get(reverse("admin:tenants_usagerecord_change", args=[rows.usage.pk])).status_code == 200
    assert UsageRecord.objects.count() == 1


def test_sums_by_day_leave_hours_out(admin_client: Client, customer: Customer) -> None:
    now = timezone.now().replace(minute=0, second=0, microsecond=0)
    add_sums(customer.key, "d", now.replace(hour=0), 4_321)  # type: ignore[arg-type]
    add_sums(customer.key, "h", now, 1_234)  # type: ignore[arg-type]

    text = admin_client.get(reverse("admin:tenants_usagerollup_changelist")).text

    assert "4,321" in text
    assert "1,234" not in text


def key_form(**asked: Any) -> dict[str, Any]:
    return {"name": "web shop", "scopes": ["usage"], "allowed_addresses": "", **asked}


def test_a_new_key_may_everything_unless_somebody_narrows_it(admin_client: Client, db: None) -> None:
    text = admin_client.get(reverse("admin:tenants_apikey_add")).text

    assert len(re.findall(r'name="scopes"[^>]*checked', text)) == 2


def test_what_a_key_may_is_ticked_and_typed(admin_client: Client, rows: Any) -> None:
    change = reverse("admin:tenants_apikey_change", args=[rows.key.pk])
    addresses = " 203.0.113.7\r\n2001:db8::/32\n\n203.0.113.7 "

    answer = admin_client.post(change, key_form(allowed_addresses=addresses, requests_per_day="500"))

    assert answer.status_code == 302
    rows.key.refresh_from_db()
    assert rows.key.scopes == ["usage"]
    assert rows.key.allowed_addresses == ["203.0.113.7", "2001:db8::/32"]
    assert rows.key.requests_per_day == 500


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"allowed_addresses": "203.0.113.7/24"}, "write 203.0.113.0/24 for all of it"),
        ({"allowed_addresses": "example.com"}, "is not an IP address or network"),
        ({"scopes": []}, "A key that may nothing is of no use"),
        ({"scopes": ["root"]}, "Select a valid choice"),
    ],
)
def test_a_key_with_a_mistake_stays_as_it_was(
    asked: dict[str, Any], said: str, admin_client: Client, rows: Any
) -> None:
    answer = admin_client.post(reverse("admin:tenants_apikey_change", args=[rows.key.pk]), key_form(**asked))

    assert said in answer.text
    rows.key.refresh_from_db()
    assert rows.key.scopes == ["inference", "usage"]


@pytest.mark.parametrize(
    ("term", "found"),
    [
        ("web", ["web shop"]),
        ("ACME", ["web shop", "nightly reports"]),
        ("nothing", []),
        ("", ["web shop", "nightly reports"]),
    ],
)
def test_keys_are_found_by_name_and_tenant(
    term: str, found: list[str], admin_client: Client, customer: Customer
) -> None:
    answer = admin_client.get(reverse("admin:tenants_apikey_changelist"), {"q": term})

    assert {key.name for key in answer.context["cl"].result_list} == set(found)


def test_a_pasted_key_is_found_by_its_prefix(admin_client: Client, customer: Customer) -> None:
    pasted = f"sk-sluice-{customer.key.prefix}-{'x' * 40}"

    for term in (pasted, customer.key.prefix, f"sk-sluice-{customer.key.prefix}-…"):
        answer = admin_client.get(reverse("admin:tenants_apikey_changelist"), {"q": term})
        assert [key.pk for key in answer.context["cl"].result_list] == [customer.key.pk]
