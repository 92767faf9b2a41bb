"""Plans: bounds that fit, and what a change would do before it is saved."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone, translation

from tenants.admin.plausible import oddities
from tenants.files.disk import make_file_id
from tenants.files.rows import MIB
from tenants.models import NANO, Adjustment, Plan, StoredFile, Tenant, UsageRollup
from tenants.month import month_bounds
from tenants.plan_effect import effect_of
from tenants.provision import create_key
from tests.integration.admin.billing import Customer, add_sums, make_customer

DAY, HOUR = UsageRollup.Period.DAY, UsageRollup.Period.HOUR
NOW = timezone.now()
TODAY = NOW.replace(hour=0, minute=0, second=0, microsecond=0)
THIS_HOUR = NOW.replace(minute=0, second=0, microsecond=0)


@pytest.fixture
def customer(db: None) -> Customer:
    return make_customer()


def typed(plan: Plan, **changes: Any) -> dict[str, Any]:
    """What a browser sends for the plan's form."""
    names = [field.name for field in Plan._meta.concrete_fields if field.editable]
    values = {name: "" if getattr(plan, name) is None else getattr(plan, name) for name in names}
    return {**values, "allowed_models": "\n".join(plan.allowed_models), **changes}


def preview(client: Client, plan: Plan, **changes: Any) -> Any:
    answer = client.post(reverse("admin:tenants_plan_preview", args=[plan.pk]), typed(plan, **changes))
    assert answer.status_code == 200
    return answer


@pytest.mark.parametrize(
    ("soft", "hard", "saved"), [("500", "400", False), ("400", "400", True), ("400", "", True), ("", "400", True)]
)
@pytest.mark.parametrize("name", ["tokens_per_month", "cost_per_month"])
def test_a_warning_line_is_not_above_its_budget(
    name: str, soft: str, hard: str, saved: bool, admin_client: Client, customer: Customer
) -> None:
    change = reverse("admin:tenants_plan_change", args=[customer.plan.pk])

    answer = admin_client.post(change, typed(customer.plan, **{name: hard, f"{name}_soft": soft}))

    assert (answer.status_code == 302) is saved
    assert saved or "The warning line must not be above the budget" in answer.text


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"requests_per_minute": 100, "requests_per_day": 100}, "can be used up within one minute"),
        ({"requests_per_minute": 1, "requests_per_day": 1441}, "is never reached"),
        ({"requests_per_minute": 1, "requests_per_day": 1440}, ""),
        ({"input_tokens_per_minute": 11, "tokens_per_minute": 10}, "is never reached"),
        ({"tokens_per_month": 10}, "has no warning line"),
        ({"tokens_per_month": 10, "tokens_per_month_soft": 5}, ""),
        ({}, ""),
    ],
)
def test_what_can_hardly_be_meant_is_pointed_out(values: dict[str, int], said: str) -> None:
    with translation.override("en"):  # whatever a page before it spoke
        found = list(oddities(values))
        assert said in "".join(found)

    assert len(found) == bool(said)


def test_a_preview_saves_nothing_and_its_buttons_do(admin_client: Client, customer: Customer) -> None:
    page = preview(admin_client, customer.plan, requests_per_day="1000")
    customer.plan.refresh_from_db()
    assert customer.plan.requests_per_day == 50_000

    carried = dict(page.context["typed"])
    change = reverse("admin:tenants_plan_change", args=[customer.plan.pk])
    again = admin_client.post(change, {**carried, "_back": ""})
    customer.plan.refresh_from_db()
    assert again.status_code == 200
    assert 'value="1000"' in again.text
    assert "Please correct" not in again.text
    assert customer.plan.requests_per_day == 50_000

    assert admin_client.post(change, {**carried, "_save": ""}).status_code == 302
    customer.plan.refresh_from_db()
    assert customer.plan.requests_per_day == 1000


def test_what_is_wrong_comes_back_to_the_form(admin_client: Client, customer: Customer) -> None:
    answer = preview(admin_client, customer.plan, requests_per_day="-3")

    assert "plans/preview.html" not in [template.name for template in answer.templates]
    assert "Ensure this value is greater than or equal to" in answer.text
    customer.plan.refresh_from_db()
    assert customer.plan.requests_per_day == 50_000


def test_the_preview_names_changes_tenants_and_limits_side_by_side(admin_client: Client, customer: Customer) -> None:
    Tenant.objects.create(slug="off", name="Off", plan=customer.plan, active=False)
    add_sums(customer.key, DAY, TODAY, 900)
    add_sums(customer.small_key, DAY, TODAY, 300)

    page = preview(admin_client, customer.plan, requests_per_day="1000", weight="2.0", max_concurrent="")

    changes = {change["name"]: (change["old"], change["new"]) for change in page.context["changes"]}
    assert changes == {
        "Requests per day": ("50,000", "1,000"),
        "Requests at once": ("40", "none set"),
        "Weight": ("1.0", "2.0"),
    }
    assert "2 tenants share this plan, 1 of them active." in page.text
    (effect,) = (one for one in page.context["effects"] if one["field"] == "requests_per_day")
    assert effect["met_before"] == "no tenant was over it"
    assert effect["met_after"].endswith("1 times in the last 7 days, 1 of them today; 200 requests beyond it")
    assert [one["tenant"].slug for one in effect["over"]] == ["acme"]
    assert "gets 2 times the share" in page.text


def test_days_over_a_limit_are_counted_for_each_tenant(customer: Customer) -> None:
    other, _ = create_key(Tenant.objects.create(slug="bolt", name="Bolt", plan=customer.plan), "k")
    elsewhere = make_customer("crane")
    for key, back, requests in (
        (customer.key, 0, 90),
        (customer.small_key, 0, 20),
        (customer.key, 2, 150),
        (other, 3, 130),
        (other, 4, 100),
        (other, 7, 999),
        (elsewhere.key, 0, 999),
    ):
        add_sums(key, DAY, TODAY - timedelta(days=back), requests)

    effect = effect_of(customer.plan, "requests_per_day", None, 100, NOW)

    assert effect is not None
    assert effect.old is None
    assert effect.new == (2, 3, 10 + 50 + 30, 1)
    assert effect.peak is not None
    assert (effect.peak.tenant.slug, effect.peak.taken) == ("acme", 150)
    assert [(peak.tenant.slug, peak.taken) for peak in effect.over] == [("acme", 150), ("bolt", 130)]


def test_of_a_minute_it_is_known_that_an_hour_took_more_than_sixty_allow(customer: Customer) -> None:
    add_sums(customer.key, HOUR, THIS_HOUR - timedelta(hours=1), 601)
    add_sums(customer.key, HOUR, THIS_HOUR - timedelta(hours=2), 600)
    add_sums(customer.key, HOUR, THIS_HOUR - timedelta(hours=24), 9_000)

    effect = effect_of(customer.plan, "requests_per_minute", 100, 10, NOW)

    assert effect is not None
    assert (effect.old, effect.new) == ((0, 0, 0, 0), (1, 1, 1, 0))


def test_corrections_count_against_the_budget_of_a_month(customer: Customer) -> None:
    start, _end = month_bounds(NOW.date())
    add_sums(customer.key, DAY, start, 10, tokens=500_000)  # 10 units of money
    Adjustment.objects.create(
        tenant=customer.tenant, month=start.date(), cost_nano=-4 * NANO, reason="r", made_by_name="n"
    )

    effect = effect_of(customer.plan, "cost_per_month", 6 * NANO, 5 * NANO, NOW)

    assert effect is not None
    assert (effect.old, effect.new) == ((0, 0, 0, 0), (1, 1, NANO, 1))


def test_caps_beyond_32_bits_are_compared_too(customer: Customer) -> None:
    start, _end = month_bounds(NOW.date())
    add_sums(customer.key, DAY, start, 1_000, tokens=3_000_000)

    effect = effect_of(customer.plan, "tokens_per_month", 10**12, 4 * 10**9, NOW)

    assert effect is not None
    assert (effect.old, effect.new) == ((0, 0, 0, 0), (1, 1, 500_000_000, 1))


def test_what_runs_at_once_is_said_to_be_unknown(admin_client: Client, customer: Customer) -> None:
    assert effect_of(customer.plan, "max_concurrent", 40, 1, NOW) is None
    assert "Not recorded, so not shown: how Requests at once" in preview(admin_client, customer.plan).text


def test_requests_to_models_and_classes_that_would_be_lost_are_counted(
    admin_client: Client, customer: Customer
) -> None:
    add_sums(customer.key, DAY, TODAY, 70, model="m1")
    add_sums(customer.key, DAY, TODAY, 30, model="m2")

    text = preview(admin_client, customer.plan, allowed_models="m1", best_class="p2").text

    assert "30 requests of the last 7 days were for m2, which would be refused." in text
    assert "100 requests of the last 7 days had a better class than P2 background" in text


def test_a_plan_that_tenants_share_is_not_deleted(admin_client: Client, customer: Customer) -> None:
    text = admin_client.get(reverse("admin:tenants_plan_delete", args=[customer.plan.pk])).text
    assert "acme-gold: 1 tenant shares it." in text

    admin_client.post(reverse("admin:tenants_plan_delete", args=[customer.plan.pk]), {"post": "yes"})
    assert Plan.objects.filter(pk=customer.plan.pk).exists()


def test_history_leads_to_the_audit_log(admin_client: Client, customer: Customer) -> None:
    change = reverse("admin:tenants_plan_change", args=[customer.plan.pk])
    admin_client.post(change, typed(customer.plan, cost_per_month=Decimal("1200.00"), weight="3"))

    page = admin_client.get(reverse("admin:tenants_plan_history", args=[customer.plan.pk]), follow=True)

    assert page.redirect_chain
    assert "cost per month, weight" in page.text or "weight, cost per month" in page.text
    assert "admin" in page.text
    newest = page.context["cl"].result_list[0]
    entry = admin_client.get(reverse("admin:auditlog_logentry_change", args=[newest.pk])).text
    assert "1000.00" in entry
    assert "1200.00" in entry


@pytest.mark.parametrize(
    ("old", "new", "told", "untold"),
    [
        (
            {"response_cache": "off"},
            {"response_cache": "deterministic", "response_cache_ttl_s": "7200"},
            ("Answers that a repetition would give again are kept", "7,200 seconds", "of the same tenant", "disks for"),
            ("All answers",),
        ),
        ({}, {"response_cache": "all"}, ("All answers are kept",), ("disks for",)),
        ({}, {"response_cache": "off"}, ("Equal requests are computed again",), ("are kept in",)),
        ({}, {"response_cache_ttl_s": "60"}, (), ("are kept in",)),
        ({}, {"max_stale_s": "172800"}, ("disks for 172,800 seconds",), ("are kept in",)),
        ({}, {"cached_price_percent": "50"}, ("costs 50 percent of a computed one, instead of 0",), ("are kept in",)),
        ({"response_cache": "off"}, {"cached_price_percent": "50"}, (), ("50 percent of a computed",)),
    ],
)
def test_the_preview_says_what_begins_to_be_kept_where_and_for_how_long(
    admin_client: Client,
    customer: Customer,
    old: dict[str, Any],
    new: dict[str, Any],
    told: tuple[str, ...],
    untold: tuple[str, ...],
) -> None:
    Plan.objects.filter(pk=customer.plan.pk).update(**old)
    customer.plan.refresh_from_db()

    text = preview(admin_client, customer.plan, **new).text

    assert [words for words in told if words not in text] == []
    assert [words for words in untold if words in text] == []


def add_files(tenant: Tenant, *sizes_mib: float) -> None:
    for size in sizes_mib:
        StoredFile.objects.create(
            tenant=tenant,
            public_id=make_file_id(),
            filename="requests.jsonl",
            purpose="batch",
            size_bytes=int(size * MIB),
        )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (10, 0, "No more files are taken, and no batches begin; what is stored stays until it expires."),
        (0, 10, "Files are taken from now on"),
        (10, 3, "1 tenant has stored as much already"),
        (10, 2, "2 tenants have stored as much already"),
        (10, 4, ""),
        (10, 10, ""),
        (2, 3, ""),
        (0, 0, ""),
    ],
)
def test_the_preview_says_what_becomes_of_files(
    admin_client: Client, customer: Customer, old: int, new: int, told: str
) -> None:
    Plan.objects.filter(pk=customer.plan.pk).update(files_mib=old)
    customer.plan.refresh_from_db()
    add_files(customer.tenant, 1.5, 1.5)
    add_files(Tenant.objects.create(slug="bolt", name="Bolt", plan=customer.plan), 2)
    add_files(make_customer("crane").tenant, 9)  # of another plan

    page = preview(admin_client, customer.plan, files_mib=str(new))

    found = [text for text in page.context["consequences"] if "iles" in text]
    assert len(found) == bool(told)
    assert told in "".join(found)


def test_room_for_files_stands_with_what_it_is_for(admin_client: Client, customer: Customer) -> None:
    text = admin_client.get(reverse("admin:tenants_plan_change", args=[customer.plan.pk])).text
    assert text.index("Files and batches") < text.index('name="files_mib"') < text.index('name="response_cache"')
