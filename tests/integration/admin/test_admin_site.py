"""Every page of the operators' admin opens for operators, and for nobody else."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from gateway_admin.login import ATTEMPTS
from tenants.models import ApiKey, Plan, Tenant, UsageRecord, UsageRollup

PAGES = [
    "admin:index",
    "engines",
    "queues",
    *(
        f"admin:tenants_{model}_{page}"
        for model in ("plan", "tenant", "apikey", "price", "adjustment")
        for page in ("changelist", "add")
    ),
    "admin:tenants_usagerecord_changelist",
    "admin:tenants_usagerollup_changelist",
    "admin:tenants_budgetwarning_changelist",
    "cache",
    "admin:auditlog_logentry_changelist",
    "admin:gateway_admin_automationtoken_changelist",
    "admin:gateway_admin_operatoraction_changelist",
    "admin:auth_user_changelist",
    "admin:auth_user_add",
    "admin:auth_group_changelist",
    "admin:auth_group_add",
]
ROW_PAGES = [
    "admin:tenants_plan_change",
    "admin:tenants_tenant_change",
    "admin:tenants_apikey_change",
    "admin:tenants_usagerecord_change",
    "admin:tenants_apikey_rotate",
    "admin:tenants_apikey_revoke",
    "admin:tenants_plan_delete",
    "admin:tenants_tenant_delete",
]


def row_of(rows: Any, page: str) -> int:
    by_model = {"plan": rows.plan, "tenant": rows.tenant, "apikey": rows.key, "usagerecord": rows.usage}
    return int(by_model[page.split("_")[1]].pk)


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens(page: str, language: str, admin_client: Client, rows: Any, valkey: Any) -> None:
    answer = admin_client.get(reverse(page), headers={"accept-language": language})

    assert answer.status_code == 200
    assert f'lang="{language}"' in answer.text


@pytest.mark.parametrize("page", ROW_PAGES)
def test_a_page_of_a_row_opens(page: str, admin_client: Client, rows: Any) -> None:
    assert admin_client.get(reverse(page, args=[row_of(rows, page)])).status_code == 200


@pytest.mark.parametrize("page", [*PAGES, "engines-state", "queues-state", "queues-switch", "cache-state", "cache-fix"])
def test_a_stranger_is_sent_to_the_login(page: str, client: Client, rows: Any) -> None:
    answer = client.get(reverse(page))

    assert answer.status_code == 302
    assert reverse("admin:login") in answer["Location"]


@pytest.mark.parametrize("page", ROW_PAGES)
def test_a_stranger_sees_no_row(page: str, client: Client, rows: Any) -> None:
    answer = client.get(reverse(page, args=[row_of(rows, page)]))

    assert answer.status_code == 302
    assert reverse("admin:login") in answer["Location"]


def test_no_page_names_another_host(admin_client: Client, rows: Any, valkey: Any) -> None:
    for page in PAGES:
        text = admin_client.get(reverse(page)).text
        hosts = [part.split('"')[0] for part in text.split('src="')[1:] + text.split('stylesheet" href="')[1:]]
        assert all(host.startswith("/") for host in hosts), page


def test_usage_can_only_be_read(admin_client: Client, rows: Any) -> None:
    change = reverse("admin:tenants_usagerecord_change", args=[rows.usage.pk])

    assert admin_client.post(change, {"status": "500"}).status_code == 403
    assert admin_client.get(reverse("admin:tenants_usagerecord_add")).status_code == 403
    assert admin_client.post(reverse("admin:tenants_usagerecord_delete", args=[rows.usage.pk])).status_code == 403
    assert UsageRecord.objects.get().status == 200


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", True),
        ("q=3f1c0000-0000-4000-8000-000000000001", True),
        ("q=3f1c0000-0000-4000-8000-000000000002", False),
        ("qos_class__exact=p1", True),
        ("qos_class__exact=p0", False),
        ("outcome__exact=failed", False),
        ("model=m1", True),
        ("model=other", False),
        ("finished_at_from_0=2000-01-01&finished_at_from_1=00:00:00", True),
        ("finished_at_to_0=2000-01-01&finished_at_to_1=00:00:00", False),
        ("finished_at_from_0=2000-01-01", True),
        ("finished_at_to_0=2000-01-01", False),
        ("finished_at_from_0=nonsense&finished_at_to_0=2000-99-99", True),
    ],
)
def test_usage_is_found_by(query: str, found: bool, admin_client: Client, rows: Any) -> None:
    answer = admin_client.get(f"{reverse('admin:tenants_usagerecord_changelist')}?{query}")

    assert answer.status_code == 200
    assert (rows.usage.request_id in answer.text.replace(query, "")) is found


def test_the_tenants_page_shows_what_it_used_today(admin_client: Client, rows: Any) -> None:
    answer = admin_client.get(reverse("admin:tenants_tenant_change", args=[rows.tenant.pk]))

    assert "1 requests, 0 of them failed; 12 prompt tokens, 4 of them cached; 60 answer tokens" in answer.text


def test_a_tenants_short_name_stays(admin_client: Client, rows: Any) -> None:
    data = {"slug": "other", "name": "Acme Inc", "plan": rows.plan.pk, "active": "on"}
    data |= {"keys-TOTAL_FORMS": 0, "keys-INITIAL_FORMS": 0}

    admin_client.post(reverse("admin:tenants_tenant_change", args=[rows.tenant.pk]), data)

    rows.tenant.refresh_from_db()
    assert (rows.tenant.slug, rows.tenant.name) == ("acme", "Acme Inc")


def test_models_of_a_plan_are_written_one_a_line(admin_client: Client, db: None) -> None:
    data = {"name": "silver", "weight": "1", "best_class": "p1", "allowed_models": " m1 \n\nm2\nm1\n"}
    data |= {"cache_sharing": "private", "retention_hours": "0", "response_cache": "off"}
    data |= {"response_cache_ttl_s": "60", "cached_price_percent": "0", "max_stale_s": "0", "files_mib": "0"}

    admin_client.post(reverse("admin:tenants_plan_add"), data)

    plan = Plan.objects.get(name="silver")
    assert plan.allowed_models == ["m1", "m2"]
    assert "m1\nm2" in admin_client.get(reverse("admin:tenants_plan_change", args=[plan.pk])).text


def test_a_tenant_with_usage_is_not_deleted(admin_client: Client, rows: Any) -> None:
    admin_client.post(reverse("admin:tenants_tenant_delete", args=[rows.tenant.pk]), {"post": "yes"})

    assert Tenant.objects.count() == 1


def test_deleting_many_is_seen_by_the_gateways(admin_client: Client, rows: Any) -> None:
    from tenants.snapshot import load_snapshot

    UsageRecord.objects.all().delete()
    UsageRollup.objects.all().delete()
    before = load_snapshot()

    admin_client.post(
        reverse("admin:tenants_tenant_changelist"),
        {"action": "delete_selected", "_selected_action": [rows.tenant.pk], "post": "yes"},
    )

    assert ApiKey.objects.count() == 0
    assert load_snapshot(before).keys == {}


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Wrong passwords of other tests do not count here, nor those of this one elsewhere."""
    cache.clear()
    yield
    cache.clear()


@pytest.mark.usefixtures("forgotten")
def test_after_many_wrong_passwords_the_right_one_has_to_wait(client: Client, admin_user: Any) -> None:
    login = reverse("admin:login")

    for _ in range(ATTEMPTS):
        client.post(login, {"username": "admin", "password": "wrong"})
    answer = client.post(login, {"username": "admin", "password": "password"})

    assert answer.status_code == 200
    assert "Too many wrong passwords" in answer.text
    assert client.post(login, {"username": "admin", "password": "password"}, REMOTE_ADDR="10.0.0.9").status_code == 302


@pytest.mark.usefixtures("forgotten")
def test_a_good_login_forgets_the_wrong_ones(client: Client, admin_user: Any) -> None:
    login = reverse("admin:login")

    for _ in range(3):
        for _ in range(ATTEMPTS - 1):
            client.post(login, {"username": "admin", "password": "wrong"})
        assert client.post(login, {"username": "admin", "password": "password"}).status_code == 302
        client.logout()


@pytest.mark.parametrize("page", ["schema", "schema-docs"])
def test_the_reference_is_open_to_all(page: str, client: Client) -> None:
    assert client.get(reverse(page)).status_code == 200
