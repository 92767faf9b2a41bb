"""Operators' pages in a real browser: both languages, light and dark, without any outside host."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from redis import Redis

from tenants.keys import make_key
from tenants.models import Tenant
from tenants.provision import create_key, ensure_demo_tenant
from tenants.usage import UsageRow, record_usage
from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser

pytestmark = [pytest.mark.browser, NEEDS_BROWSER]

PASSWORD = "a long enough password"


@pytest.fixture
def product(transactional_db: None, valkey: "Redis") -> Tenant:
    """Two workers, some waiting work, usage, and an operator's account."""
    User.objects.create_superuser("admin", password=PASSWORD)
    tenant = ensure_demo_tenant(make_key().plaintext)
    fill_valkey(valkey, tenant)
    key, _ = create_key(tenant, "web shop")
    record_usage([usage_row(tenant.pk, key.pk, number) for number in range(40)])
    return tenant


def fill_valkey(valkey: "Redis", tenant: Tenant) -> None:
    now = int(timezone.now().timestamp())
    common = {
        "model": "smollm2-135m-instruct",
        "engine": "vllm",
        "version": "1.0.0+a1b2c3",
        "dtype": "float32",
        "max_num_seqs": 32,
        "kv_blocks": 2048,
        "max_model_len": 8192,
        "host": "box",
        "started_at": now - 3600,
    }
    ready = {"state": "ready", "reason": "", "free_seqs": 9, "running": 23, "free_kv_blocks": 150, "pid": 4242}
    failed = {"state": "failed", "reason": "known answer: likelihood 5.31, expected 2.13 within 0.01", "pid": 4243}
    valkey.sadd("sl:workers", "worker-0", "worker-1")
    valkey.hset("sl:worker:worker-0", mapping={**common, **ready})
    valkey.hset("sl:worker:worker-1", mapping={**common, **failed})
    valkey.sadd("sl:gateways", "gateway-0")
    valkey.set("sl:gateway:gateway-0", "1")
    valkey.sadd("sl:models", "smollm2-135m-instruct")
    valkey.zadd("sl:ready:smollm2-135m-instruct:p1", {f"r{number}": number for number in range(17)})
    valkey.sadd(f"sl:slots:t:{tenant.pk}", *[f"r{number}" for number in range(40)])


def usage_row(tenant_id: int, key_id: int, number: int) -> UsageRow:
    now = timezone.now() - timedelta(seconds=number)
    outcome = ("completed", "completed", "completed", "cancelled", "failed")[number % 5]
    return UsageRow(
        request_id=f"3f1c0000-0000-4000-8000-{number:012d}",
        tenant_id=tenant_id,
        key_id=key_id,
        model="smollm2-135m-instruct",
        model_version="1.0.0+a1b2c3",
        qos_class=("p0", "p1", "p2")[number % 3],
        endpoint="chat",
        stream=True,
        outcome=outcome,
        status=200 if outcome == "completed" else 503,
        error_code="" if outcome == "completed" else outcome,
        prompt_tokens=120,
        cached_tokens=64,
        completion_tokens=80,
        cost_nano=1_500_000,
        price_id=None,
        retry_attempt=0,
        rollback_cause="",
        batch_id="b-1",
        worker_id="worker-0",
        gateway_id="gateway-0",
        admitted_at=now - timedelta(milliseconds=900),
        claimed_at=now - timedelta(milliseconds=890),
        first_token_at=now - timedelta(milliseconds=700),
        finished_at=now,
    )


@pytest.fixture(params=["en-light", "en-dark", "zh-light", "zh-dark"])
def operator(
    request: pytest.FixtureRequest, chromium: Chromium, live_server: Any, product: Tenant, tmp_path: Path
) -> Iterator[Operator]:
    language, looks = request.param.split("-")
    with open_browser(chromium, live_server.url, tmp_path, language, looks) as operator:
        yield operator


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_every_page_opens_without_complaint_and_without_other_hosts(operator: Operator, product: Tenant) -> None:
    operator.open("admin:index")
    operator.picture("login")
    operator.login(PASSWORD)
    pages: list[tuple[str, tuple[object, ...]]] = [
        ("admin:index", ()),
        ("engines", ()),
        ("queues", ()),
        ("admin:gateway_admin_operatoraction_changelist", ()),
        ("admin:tenants_tenant_changelist", ()),
        ("admin:tenants_tenant_change", (product.pk,)),
        ("admin:tenants_plan_changelist", ()),
        ("admin:tenants_plan_change", (product.plan_id,)),
        ("admin:tenants_apikey_changelist", ()),
        ("admin:tenants_apikey_add", ()),
        ("admin:tenants_usagerecord_changelist", ()),
        ("schema-docs", ()),
    ]
    for page, args in pages:
        operator.open(page, *args)
        operator.wait_for("h1, h2")
        operator.picture(page.replace(":", "_"))
        assert operator.hosts() <= {urlsplit(operator.base_url).netloc}, page
        assert operator.complaints() == [], page


def test_engines_show_what_lives(operator: Operator) -> None:
    operator.login(PASSWORD)
    operator.open("engines")
    operator.wait_for("#workers tr")
    operator.picture("engines")

    assert operator.texts("#workers td:first-child strong") == ["worker-0", "worker-1"]
    assert operator.texts("#workers [data-field=state]") in (["Ready", "Failed"], ["就绪", "失败"])
    assert "likelihood 5.31" in operator.texts("#workers [data-field=reason]")[1]
    assert operator.texts("#slots [data-field=tenant]") == ["demo"]


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_the_page_follows_without_being_loaded_again(operator: Operator, valkey: "Redis") -> None:
    operator.login(PASSWORD)
    operator.open("engines")
    operator.wait_for("#workers tr")

    valkey.delete("sl:worker:worker-0", "sl:worker:worker-1")

    operator.wait_for("[data-empty=workers]:not([hidden])")
    operator.picture("engines_empty")
    assert operator.texts("#workers tr") == []


@pytest.mark.parametrize("operator", ["en-dark", "zh-light"], indirect=True)
def test_a_new_key_is_shown_once_and_copied(operator: Operator, product: Tenant) -> None:
    operator.login(PASSWORD)
    operator.open("admin:tenants_apikey_add", query=f"?tenant={product.pk}")
    operator.fill("[name=name]", "web shop")
    operator.click("[name=_save]")
    operator.wait_for("#plaintext")
    plaintext = operator.text("#plaintext")
    operator.do(lambda page: page.context.grant_permissions(["clipboard-read", "clipboard-write"]))
    operator.click("[data-copy]")
    operator.picture("key_created")

    assert plaintext.startswith("sk-sluice-")
    assert operator.run("getSelection().toString()") == plaintext
    assert operator.run("navigator.clipboard.readText()") == plaintext
    operator.reload()
    operator.wait_for("#content")
    operator.picture("key_afterwards")
    assert plaintext not in operator.do(lambda page: page.content())


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_a_key_is_rotated_and_revoked(operator: Operator, product: Tenant) -> None:
    key = product.keys.get(name="web shop")
    operator.login(PASSWORD)
    operator.open("admin:tenants_apikey_change", key.pk)
    operator.picture("key")
    operator.open("admin:tenants_apikey_rotate", key.pk)
    operator.picture("key_rotate")
    operator.click("#content .sluice-button")
    operator.wait_for("#plaintext")
    operator.open("admin:tenants_apikey_revoke", key.pk)
    operator.picture("key_revoke")
    operator.click("#content .sluice-danger")
    operator.wait_for("[name=_save]")

    key.refresh_from_db()
    assert key.revoked_at is not None
    assert key.revoked_at <= timezone.now()
