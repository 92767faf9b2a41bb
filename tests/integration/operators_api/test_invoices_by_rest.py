"""A month is billed from its rows: lines and adjustments add up to them."""

import csv
from datetime import UTC, datetime
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks
from redis import Redis

from domain.money import decimal_text
from tenants.models import Adjustment, Price
from tenants.usage import record_usage
from tests.integration.operators_api.conftest import Caller, Rows, usage_row


@pytest.fixture
def month(rows: Rows) -> Rows:
    """November with two prices and rows without one; a row of December that began in November's last moment is its."""
    other = Price.objects.create(
        model="m1",
        model_version="2.0",
        input_per_million=Decimal(3),
        cached_input_per_million=Decimal(1),
        output_per_million=Decimal("9.999"),
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    )
    more = [usage_row(rows.tenant, rows.key, 300 + n, other, model_version="2.0.1") for n in range(3)]
    more += [usage_row(rows.tenant, rows.key, 400 + n, None, model="free", qos_class="p2") for n in range(2)]
    last, _next_month = datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
    more.append(usage_row(rows.tenant, rows.key, 500, rows.price, admitted_at=last))
    record_usage(
        [*more, usage_row(rows.tenant, rows.key, 501, rows.price, admitted_at=datetime(2026, 12, 1, tzinfo=UTC))]
    )
    rows.usage += more
    return rows


def adjust(call: Caller, **body: Any) -> Any:
    return call("POST", "adjustments", {"tenant": "acme", "month": "2026-11", "reason": "agreed", **body})


def test_lines_and_adjustments_add_up_to_the_rows(admin: Caller, viewer: Caller, month: Rows) -> None:
    assert adjust(admin, cost="-1.5", tokens=-40).status_code == 201
    assert adjust(admin, cost="0.000000001").status_code == 201
    assert adjust(admin, month="2026-12", cost="7").status_code == 201

    invoice = viewer.get("tenants/acme/invoice", month="2026-11")

    used = sum(row.cost_nano for row in month.usage)
    assert invoice["usage_cost"] == decimal_text(used)
    assert invoice["adjustments_cost"] == "-1.499999999"
    assert invoice["total"] == decimal_text(used - 1_499_999_999)
    assert invoice["requests"] == len(month.usage)
    assert invoice["tokens"] == sum(row.prompt_tokens + row.completion_tokens for row in month.usage) - 40
    assert sum(Decimal(line["cost"]) for line in invoice["lines"]) == Decimal(used) / 10**9
    assert [(line["model"], line["model_version"], line["price_id"] is None) for line in invoice["lines"]] == [
        ("free", "", True),
        ("m1", "", False),
        ("m1", "2.0", False),
    ]


def test_each_line_is_its_tokens_times_its_unit_prices(viewer: Caller, month: Rows) -> None:
    lines = viewer.get("tenants/acme/invoice", month="2026-11")["lines"]
    for line in lines:
        if line["price_id"] is None:
            assert Decimal(line["cost"]) == 0
            continue
        fresh = line["prompt_tokens"] - line["cached_tokens"]
        parts = (
            fresh * Decimal(line["input_per_million"]),
            line["cached_tokens"] * Decimal(line["cached_input_per_million"]),
            line["completion_tokens"] * Decimal(line["output_per_million"]),
        )
        assert Decimal(line["cost"]) * 10**6 == sum(parts)


def test_the_invoice_as_csv_says_the_same(admin: Caller, month: Rows) -> None:
    adjust(admin, cost="-2", reason='=HYPERLINK("http://x")')
    invoice = admin.get("tenants/acme/invoice", month="2026-11")

    text = admin("GET", "tenants/acme/invoice", month="2026-11", format="csv").content.decode()

    written = list(csv.DictReader(StringIO(text)))
    kinds = [row["kind"] for row in written]
    assert kinds == ["usage"] * 3 + ["adjustment", "total"]
    assert [row["cost"] for row in written] == [
        *(line["cost"] for line in invoice["lines"]),
        "-2.00",
        invoice["total"],
    ]
    assert written[3]["reason"] == '\'=HYPERLINK("http://x")'


def test_a_month_is_final_once_it_is_over(viewer: Caller, rows: Rows) -> None:
    assert viewer.get("tenants/acme/invoice", month="2025-01")["is_final"] is True
    assert viewer.get("tenants/acme/invoice", month="2999-01")["is_final"] is False


def test_an_adjustment_is_written_once_with_its_maker_and_counted_in_the_store(
    admin: Caller,
    rows: Rows,
    valkey: "Redis",
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    counted = f"sl:spent:t:{rows.tenant.pk}:m202611"
    valkey.hset(counted, mapping={"base": "1", "c": "5"})
    with django_capture_on_commit_callbacks(execute=True):
        made = adjust(admin, cost="1.25", tokens=3)

    assert made.json()["made_by"] == "ada"
    assert made.json()["month"] == "2026-11"
    assert valkey.hmget(counted, "c", "a") == [b"1250000005", b"3"]
    assert admin("DELETE", f"adjustments/{made.json()['id']}", headers={"If-Match": "*"}).status_code == 405
    assert [one["cost"] for one in admin.get("adjustments", tenant="acme", month="2026-11")["results"]] == ["1.25"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"cost": "0"},
        {"cost": "1e9999"},
        {"cost": "1.0000000001"},
        {"cost": "1", "month": "2026-1"},
        {"tokens": 1.5},
    ],
)
def test_an_adjustment_that_says_nothing_or_too_much_is_refused(
    wrong: dict[str, Any], admin: Caller, rows: Rows
) -> None:
    assert adjust(admin, **wrong).status_code == 400
    assert not Adjustment.objects.exists()


def test_limits_are_shown_as_they_stand(viewer: Caller, rows: Rows, valkey: "Redis") -> None:
    valkey.sadd(f"sl:slots:t:{rows.tenant.pk}", "a", "b")
    limits = {one["name"]: one for one in viewer.get("tenants/acme/limits")["limits"]}
    at_once = limits["max_concurrent"]
    assert (at_once["used"], at_once["remaining"], at_once["level"]) == (2, 6, "tenant")
    assert limits["cost_per_month"]["limit"] == "100.00"
    rows.key.requests_per_minute = 9
    rows.key.save()
    both = viewer.get("tenants/acme/limits", key=str(rows.key.pk))["limits"]
    assert {(one["level"], one["name"]) for one in both} >= {
        ("key", "requests_per_minute"),
        ("tenant", "max_concurrent"),
    }
