"""Which role may open and do what on the operators' pages: one table, every page of the site in it."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from gateway_admin.automation_token import AutomationToken, make_token
from gateway_admin.models import OperatorAction
from gateway_admin.roles import Role
from tenants.models import Adjustment, BudgetWarning, HotKey, Price, StoredPrompt, UsageRollup

V, O, B, A = Role.VIEWER, Role.OPERATOR, Role.BILLING, Role.ADMIN  # noqa: E741
ALL, OPERATORS, BILLING, ADMINS, NOBODY = {V, O, B, A}, {O, A}, {B, A}, {A}, set()

# Model -> who may list and look at it, add, change, delete rows.
MATRIX: dict[str, tuple[set[Role], set[Role], set[Role], set[Role]]] = {
    "tenants_plan": (ALL, OPERATORS, OPERATORS, OPERATORS),
    "tenants_tenant": (ALL, OPERATORS, OPERATORS, OPERATORS),
    "tenants_apikey": (ALL, OPERATORS, OPERATORS, OPERATORS),
    "tenants_price": (ALL, BILLING, BILLING, BILLING),
    "tenants_adjustment": (ALL, BILLING, NOBODY, NOBODY),
    "tenants_usagerecord": (ALL, NOBODY, NOBODY, NOBODY),
    "tenants_usagerollup": (ALL, NOBODY, NOBODY, NOBODY),
    "tenants_budgetwarning": (ALL, NOBODY, NOBODY, NOBODY),
    "tenants_hotkey": (ALL, OPERATORS, OPERATORS, NOBODY),
    "tenants_storedprompt": (ALL, NOBODY, NOBODY, NOBODY),
    "auditlog_logentry": (ALL, NOBODY, NOBODY, NOBODY),
    "gateway_admin_operatoraction": (ALL, NOBODY, NOBODY, NOBODY),
    "gateway_admin_automationtoken": (ADMINS, NOBODY, NOBODY, ADMINS),
    "auth_user": (ADMINS, ADMINS, ADMINS, ADMINS),
    "auth_group": (ADMINS, ADMINS, ADMINS, ADMINS),
}
# Further pages: address, which row it is about, who may open it.
OTHERS: list[tuple[str, str, set[Role]]] = [
    ("admin:index", "", ALL),
    ("engines", "", ALL),
    ("engines-state", "", ALL),
    ("queues", "", ALL),
    ("queues-state", "", ALL),
    *((page, "", ALL) for page in ("batches", "batches-state")),
    ("cache", "", ALL),
    ("cache-state", "", ALL),
    ("cache-fix", "", OPERATORS),
    ("traces", "", ALL),
    ("why-slow", "", ALL),
    *((page, "", ALL) for page in ("now", "now-state", "service-map", "service-map-state")),
    *((page, "", ALL) for page in ("heat-map", "heat-state", "heat-cell")),
    ("admin:tenants_tenant_live", "tenants_tenant", ALL),
    ("admin:tenants_apikey_live", "tenants_apikey", ALL),
    ("admin:tenants_plan_preview", "tenants_plan", OPERATORS),
    ("admin:tenants_tenant_new_key", "tenants_tenant", OPERATORS),
    ("admin:tenants_tenant_see_usage", "tenants_tenant", ALL),
    ("admin:tenants_tenant_see_days", "tenants_tenant", ALL),
    ("admin:tenants_tenant_erase_kept", "tenants_tenant", OPERATORS),
    ("tenant-erase", "tenants_tenant", OPERATORS),
    ("admin:tenants_apikey_rotate", "tenants_apikey", OPERATORS),
    ("admin:tenants_apikey_revoke", "tenants_apikey", OPERATORS),
    ("admin:tenants_price_replace", "tenants_price", BILLING),
    *((f"admin:{model}_history", model, ALL) for model in ("tenants_plan", "tenants_tenant", "tenants_apikey")),
    ("admin:tenants_price_history", "tenants_price", ALL),
    ("admin:tenants_hotkey_history", "tenants_hotkey", ALL),
    ("admin:tenants_adjustment_history", "tenants_adjustment", ALL),
]
OPENS, REFUSED = {200, 302}, {403}


@pytest.fixture
def row_ids(rows: Any, admin_user: User, valkey: Any) -> dict[str, int]:
    """A row of each kind; the price has not begun, so that it can be changed."""
    amounts = dict.fromkeys(("input_per_million", "cached_input_per_million", "output_per_million"), Decimal(1))
    now = timezone.now()
    price = Price.objects.create(model="m1", valid_from=now + timedelta(days=1), **amounts)
    month = now.date().replace(day=1)
    adjustment = Adjustment.objects.create(tenant=rows.tenant, month=month, cost_nano=5, reason="r", made_by_name="n")
    warning = BudgetWarning.objects.create(tenant=rows.tenant, month=month, kind="cost", bound="soft", spent=1, limit=1)
    token, _text = make_token(admin_user, "nightly", Role.VIEWER, 1)
    action = OperatorAction.objects.create(operator_name="n", action="pause", kind="queue", target="m:p1")
    return {
        "tenants_plan": rows.plan.pk,
        "tenants_tenant": rows.tenant.pk,
        "tenants_apikey": rows.key.pk,
        "tenants_price": price.pk,
        "tenants_adjustment": adjustment.pk,
        "tenants_usagerecord": rows.usage.pk,
        "tenants_usagerollup": UsageRollup.objects.values_list("pk", flat=True)[0],
        "tenants_budgetwarning": warning.pk,
        "tenants_hotkey": HotKey.objects.create(kind="answer", key="0" * 32).pk,
        "tenants_storedprompt": StoredPrompt.objects.create(tenant=rows.tenant, public_id="prompt_0").pk,
        "auditlog_logentry": _log_entry(),
        "gateway_admin_operatoraction": action.pk,
        "gateway_admin_automationtoken": token.pk,
        "auth_user": admin_user.pk,
        "auth_group": Group.objects.values_list("pk", flat=True)[0],
    }


def _log_entry() -> int:
    return int(LogEntry.objects.values_list("pk", flat=True)[0])


@pytest.fixture(params=list(Role))
def person(request: pytest.FixtureRequest, client: Client, row_ids: dict[str, int]) -> tuple[Client, Role]:
    role: Role = request.param
    user = User.objects.create_user(f"{role.value}-person", is_staff=True)
    user.groups.add(Group.objects.get(name=role.value))
    client.force_login(user)
    return client, role


def test_every_page_of_the_site_is_in_the_table() -> None:
    registered = {f"{model._meta.app_label}_{model._meta.model_name}" for model in admin.site._registry}
    named = {
        pattern.name for model_admin in admin.site._registry.values() for pattern in model_admin.urls if pattern.name
    }
    usual = {f"{model}_{page}" for model in registered for page in ("changelist", "add", "change", "delete", "history")}
    others = {name.removeprefix("admin:") for name, _row, _who in OTHERS}

    assert registered == set(MATRIX)
    assert named - usual - others - {"auth_user_password_change"} == set()


def test_each_role_opens_what_it_may(person: tuple[Client, Role], row_ids: dict[str, int]) -> None:
    client, role = person
    wrong = []
    for model, (look, add, change, delete) in MATRIX.items():
        asked = [
            ("changelist", [], look),
            ("add", [], add),
            ("change", [row_ids[model]], look | change),
            ("delete", [row_ids[model]], delete),
        ]
        for page, args, may in asked:
            status = client.get(reverse(f"admin:{model}_{page}", args=args)).status_code
            if status not in (OPENS if role in may else REFUSED):
                wrong.append((model, page, status))
    for name, row, may in OTHERS:
        status = client.get(reverse(name, args=[row_ids[row]] if row else [])).status_code
        if status not in (OPENS if role in may else REFUSED):
            wrong.append((name, row, status))

    assert wrong == []


def test_each_role_changes_what_it_may_and_nothing_else(person: tuple[Client, Role], row_ids: dict[str, int]) -> None:
    client, role = person
    wrong = []
    for model, (_look, _add, change, _delete) in MATRIX.items():
        page = reverse(f"admin:{model}_change", args=[row_ids[model]])
        status = client.post(page, {"_continue": "1"}).status_code  # an empty form: refused, or told what is missing
        if status not in (OPENS if role in change else REFUSED):
            wrong.append((model, status))

    assert wrong == []


@pytest.mark.parametrize("action", ["revoke_selected", "delete_selected"])
def test_actions_on_many_are_offered_by_role(action: str, person: tuple[Client, Role], row_ids: dict[str, int]) -> None:
    client, role = person

    text = client.get(reverse("admin:tenants_apikey_changelist")).text

    assert (f'value="{action}"' in text) is (role in OPERATORS)


def test_somebody_without_a_role_opens_nothing(client: Client, row_ids: dict[str, int]) -> None:
    client.force_login(User.objects.create_user("nobody", is_staff=True))

    for model in MATRIX:
        assert client.get(reverse(f"admin:{model}_changelist")).status_code == 403, model
    assert client.get(reverse("admin:tenants_tenant_live", args=[row_ids["tenants_tenant"]])).status_code == 403
    assert "admin:tenants_tenant_changelist" not in client.get(reverse("admin:index")).text


def test_a_token_is_revoked_by_its_page_and_its_text_is_nowhere(
    admin_client: Client, row_ids: dict[str, int], admin_user: User
) -> None:
    token, text = make_token(admin_user, "invoices", Role.BILLING, 30)

    shown = admin_client.get(reverse("admin:gateway_admin_automationtoken_change", args=[token.pk])).text
    answer = admin_client.post(reverse("admin:gateway_admin_automationtoken_delete", args=[token.pk]), {"post": "yes"})

    assert "invoices" in shown
    assert text not in shown
    assert token.digest not in shown
    assert answer.status_code == 302
    assert not AutomationToken.objects.filter(pk=token.pk).exists()
