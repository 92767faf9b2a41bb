"""A tenant's page: live limits, this month, charts, keys."""

import html
import re
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import Settings
from redis import Redis

from tenants.models import NANO, Adjustment, UsageRollup
from tenants.month import ends_on, forecast, month_bounds, month_spent
from tests.integration.admin.billing import Customer, add_history, add_money, add_sums, fill_counts, make_customer


@pytest.fixture
def customer(db: None) -> Customer:
    return make_customer()


@pytest.fixture
def counted(customer: Customer, valkey: "Redis") -> Customer:
    fill_counts(valkey, customer)
    return customer


def limits(client: Client, page: str, pk: int) -> dict[str, dict[str, Any]]:
    answer = client.get(reverse(f"admin:tenants_{page}_live", args=[pk]))
    assert answer.status_code == 200
    assert answer.json()["error"] == ""
    return {row["key"]: row for row in answer.json()["limits"]}


def test_live_limits_tell_used_reserved_and_remaining(admin_client: Client, counted: Customer) -> None:
    found = limits(admin_client, "tenant", counted.tenant.pk)

    assert len(found) == 10
    at_once, day, cost = found["t:max_concurrent"], found["t:requests_per_day"], found["t:cost_per_month"]
    assert (at_once["used"], at_once["left"], at_once["level"]) == ("40", "0", "full")
    assert (day["used"], day["held"], day["left"], day["cap"]) == ("14,000", "40", "35,960", "50,000")
    assert (cost["used"], cost["held"], cost["left"]) == ("966.20 USD", "3.00 USD", "30.80 USD")
    assert found["t:output_tokens_per_day"]["level"] == "near"


def test_a_keys_page_tells_which_of_two_limits_leaves_less(admin_client: Client, counted: Customer) -> None:
    found = limits(admin_client, "apikey", counted.small_key.pk)

    assert list(found)[1:3] == ["k:requests_per_minute", "t:requests_per_minute"]
    assert [found[f"{level}:requests_per_minute"]["in_force"] for level in "kt"] == [True, False]
    assert [found[f"{level}:tokens_per_minute"]["in_force"] for level in "kt"] == [False, True]


def test_without_valkey_the_page_says_so_and_shows_the_rest(
    admin_client: Client, customer: Customer, settings: Settings, free_port: int
) -> None:
    settings.SLUICE = replace(settings.SLUICE, redis_url=f"redis://127.0.0.1:{free_port}")

    state = admin_client.get(reverse("admin:tenants_tenant_live", args=[customer.tenant.pk])).json()
    page = admin_client.get(reverse("admin:tenants_tenant_change", args=[customer.tenant.pk]))

    assert state["error"]
    assert [row["used"] for row in state["limits"]] == ["–"] * 10
    assert state["limits"][0]["cap"] == "40"
    assert page.status_code == 200
    assert "This month" in page.text


@pytest.mark.parametrize("wrong", ["987654", "nonsense", "1%2F2"])
def test_live_limits_of_nobody_are_not_found(wrong: str, admin_client: Client, db: None) -> None:
    assert admin_client.get(f"/admin/tenants/tenant/{wrong}/live").status_code == 404


def test_the_month_counts_usage_and_corrections(customer: Customer) -> None:
    now = timezone.now()
    start, _end = month_bounds(now.date())
    add_sums(customer.key, UsageRollup.Period.DAY, start, 100, tokens=10)
    add_sums(customer.key, UsageRollup.Period.DAY, start - timedelta(days=1), 7_000)
    add_sums(customer.key, UsageRollup.Period.HOUR, start, 9_000)
    Adjustment.objects.create(
        tenant=customer.tenant, month=start.date(), cost_nano=-500, tokens=-100, reason="r", made_by_name="n"
    )

    spent = month_spent(customer.tenant.pk, now.date())

    assert spent == (100, 1_500 - 100, 2_000_000 - 500, -100, -500)


@pytest.mark.parametrize(
    ("now", "used", "expected"),
    [
        (datetime(2026, 11, 16, tzinfo=UTC), 150, 300),
        (datetime(2027, 2, 8, tzinfo=UTC), 70, 280),
        (datetime(2026, 11, 1, 12, tzinfo=UTC), 150, None),
        (datetime(2026, 11, 16, tzinfo=UTC), 0, 0),
    ],
)
def test_the_forecast_follows_the_months_average(now: datetime, used: int, expected: int | None) -> None:
    assert forecast(used, now) == expected


@pytest.mark.parametrize(
    ("used", "budget", "expected"),
    [(150, 200, date(2026, 11, 21)), (150, 300, date(2026, 12, 1)), (150, 301, None), (0, 10, None)],
)
def test_the_end_of_a_budget_is_foreseen(used: int, budget: int, expected: date | None) -> None:
    assert ends_on(used, budget, datetime(2026, 11, 16, tzinfo=UTC)) == expected


def test_the_page_shows_budget_warnings_and_corrections(admin_client: Client, customer: Customer, valkey: Any) -> None:
    add_money(customer, timezone.now())

    text = admin_client.get(reverse("admin:tenants_tenant_change", args=[customer.tenant.pk])).text

    assert "Warning line of 800.00 USD passed: 801.00 USD" in text
    assert "webhook: the address answered with 500" in text
    assert "-25.00 USD" in text
    assert "1,000.00 USD" in text
    index = admin_client.get(reverse("admin:index")).text
    assert "Warning line of 800.00 USD passed" in index


def test_charts_and_tables_hold_the_sums(admin_client: Client, customer: Customer) -> None:
    now = timezone.now()
    add_history(customer, now)

    page = admin_client.get(reverse("admin:tenants_tenant_change", args=[customer.tenant.pk]))

    hours, days = page.context["usage_charts"]
    assert (len(hours["rows"]), len(days["rows"])) == (24, 30)
    assert days["rows"][0][:2] == (f"{now:%Y-%m-%d}", "14,000")
    requests, tokens, cost = (chart["data"]["sets"] for chart in days["charts"])
    assert sum(requests[0]["values"] + requests[1]["values"]) == sum(
        UsageRollup.objects.filter(period="d").values_list("requests", flat=True)
    )
    assert [one["values"][-1] for one in tokens] == [9_800_000 - 3_266_666, 3_266_666, 4_900_000]
    assert cost[0]["values"][-1] == 19.6


def test_the_list_tells_what_was_spent_of_which_budget(admin_client: Client, customer: Customer) -> None:
    add_sums(customer.key, UsageRollup.Period.DAY, month_bounds(timezone.now().date())[0], 1_000)
    Adjustment.objects.create(
        tenant=customer.tenant,
        month=timezone.now().date().replace(day=1),
        cost_nano=NANO,
        reason="r",
        made_by_name="n",
    )

    text = admin_client.get(reverse("admin:tenants_tenant_changelist")).text

    assert "1.20 USD of 1,000.00 USD" in text


def test_nothing_limited_by_another_level_is_called_unlimited(admin_client: Client, customer: Customer) -> None:
    pages = [
        admin_client.get(reverse("admin:tenants_apikey_change", args=[customer.small_key.pk])).text,
        admin_client.get(reverse("admin:tenants_apikey_changelist")).text,
        admin_client.get(reverse("admin:tenants_tenant_change", args=[customer.tenant.pk])).text,
    ]

    holds = [told.strip() for told in re.findall(r"Holds now: ([^<]+)", html.unescape(pages[0]))]

    assert holds[:2] == ["60", "200,000 by the tenant's plan"]
    assert "1,000.00 USD by the tenant's plan" in holds
    assert len(holds) == 10
    assert all(told.endswith(" by the tenant's plan") for told in holds[1:])
    assert "Requests per minute: 60" in pages[1]
    assert not any(word in text.lower() for text in pages for word in ("unlimited", "no limit"))


def test_a_part_of_tokens_is_bounded_by_the_limit_of_all_of_them(admin_client: Client, customer: Customer) -> None:
    customer.plan.input_tokens_per_minute = None
    customer.plan.save()

    text = admin_client.get(reverse("admin:tenants_apikey_change", args=[customer.key.pk])).text

    assert "200,000 by the limit of tokens per minute" in text


def test_a_tenant_with_usage_is_refused_deletion_in_one_line(admin_client: Client, customer: Customer) -> None:
    add_history(customer, timezone.now())

    text = admin_client.get(reverse("admin:tenants_tenant_delete", args=[customer.tenant.pk])).text

    assert "acme has usage or corrections" in text
    assert text.count("usage by hour and day") == 0
