"""The pages by which tenants, plans, prices and budgets are managed, in a real browser."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from redis import Redis

from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser
from tests.integration.admin.billing import Customer, add_history, add_money, fill_counts, make_customer

pytestmark = [pytest.mark.browser, NEEDS_BROWSER]

PASSWORD = "a long enough password"


@pytest.fixture
def customer(transactional_db: None, valkey: "Redis") -> Customer:
    User.objects.create_superuser("admin", password=PASSWORD)
    customer, now = make_customer(), timezone.now()
    add_history(customer, now)
    add_money(customer, now)
    fill_counts(valkey, customer)
    return customer


@pytest.fixture(params=["en-light", "zh-dark"])
def operator(
    request: pytest.FixtureRequest, chromium: Chromium, live_server: Any, customer: Customer, tmp_path: Path
) -> Iterator[Operator]:
    language, looks = request.param.split("-")
    pictures = Path(os.environ.get("TEST_PICTURES", tmp_path))
    with open_browser(chromium, live_server.url, pictures, language, looks) as operator:
        operator.login(PASSWORD)
        yield operator


def test_every_page_opens_readable_and_without_other_hosts(
    operator: Operator, customer: Customer, request: pytest.FixtureRequest
) -> None:
    look = request.node.callspec.params["operator"]
    pages: list[tuple[str, tuple[object, ...]]] = [
        ("admin:index", ()),
        ("admin:tenants_tenant_changelist", ()),
        ("admin:tenants_tenant_change", (customer.tenant.pk,)),
        ("admin:tenants_apikey_change", (customer.small_key.pk,)),
        ("admin:tenants_plan_change", (customer.plan.pk,)),
        ("admin:tenants_apikey_changelist", ()),
        ("admin:tenants_price_changelist", ()),
        ("admin:tenants_price_add", ()),
        ("admin:tenants_adjustment_changelist", ()),
        ("admin:tenants_adjustment_add", ()),
        ("admin:tenants_usagerollup_changelist", ()),
        ("admin:tenants_budgetwarning_changelist", ()),
        ("admin:auditlog_logentry_changelist", ()),
        ("admin:gateway_admin_automationtoken_changelist", ()),
    ]
    # What the languages and looks change is alike on all of them: the second one opens those with most on them.
    for page, args in pages if look == "en-light" else pages[:5]:
        operator.open(page, *args)
        operator.wait_for("h1, h2")
        operator.picture(f"{look}_{page.replace(':', '_')}", whole="TEST_PICTURES" in os.environ)
        assert operator.hosts() <= {urlsplit(operator.base_url).netloc}, page
        assert operator.complaints() == [], page
        assert operator.pale_texts(".sluice-panel") == [], page


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_the_limits_follow_without_loading_the_page_again(
    operator: Operator, customer: Customer, valkey: "Redis"
) -> None:
    operator.open("admin:tenants_tenant_change", customer.tenant.pk)
    slots = '[data-limit="t:max_concurrent"]'
    operator.wait_for(f'{slots}[data-level="full"]')

    valkey.delete(f"sl:slots:t:{customer.tenant.pk}")

    operator.wait_for(f'{slots}[data-level=""]')
    assert operator.text(f'{slots} [data-field="left"]') == "40"
    assert operator.text('[data-limit="t:requests_per_day"] [data-field="held"]') == "40"


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_the_same_figures_stand_in_a_table_that_the_keyboard_opens(operator: Operator, customer: Customer) -> None:
    operator.open("admin:tenants_tenant_change", customer.tenant.pk)
    operator.wait_for("[data-chart]")
    drawn = "[...document.querySelectorAll('[data-chart]')].filter(c => Chart.getChart(c) && c.ariaLabel).length"

    operator.focus("details > summary")
    operator.press("Enter")

    assert operator.run(drawn) == 6
    assert len(operator.texts("details[open] tbody tr")) == 25


@pytest.mark.parametrize("operator", ["zh-dark"], indirect=True)
def test_a_plan_is_looked_at_before_it_is_saved(
    operator: Operator, customer: Customer, request: pytest.FixtureRequest
) -> None:
    operator.open("admin:tenants_plan_change", customer.plan.pk)
    operator.fill("[name=requests_per_day]", "20000")
    operator.click("[name=_preview]")
    operator.wait_for("#effects")
    operator.picture(f"{request.node.callspec.params['operator']}_plan_preview", whole=True)

    assert "20,000" in operator.text("#changes")
    assert "acme" in operator.text('[data-effect="requests_per_day"]')
    assert operator.pale_texts() == []
    customer.plan.refresh_from_db()
    assert customer.plan.requests_per_day == 50_000

    operator.click("[name=_back]")
    operator.wait_for("[name=_preview]")
    assert operator.value("[name=requests_per_day]") == "20000"
    operator.click("[name=_preview]")
    operator.wait_for("#effects")
    operator.click("#preview [name=_save]")
    operator.wait_for("#changelist")
    customer.plan.refresh_from_db()
    assert customer.plan.requests_per_day == 20_000
    assert operator.complaints() == []
