"""The pages "Batches" and of one batch in a real browser, on batches written by hand; and axe on the live pages."""

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from django.utils import timezone
from redis import Redis

from gateway_admin import batches as stands
from gateway_admin.batches_rate import RateMemory
from gateway_admin.models import OperatorAction
from tenants.models import BulkJob, BulkSlice, Plan, Tenant
from tests.acceptance.axe import NEEDS_AXE, violations
from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser
from tests.integration.admin.made_batches import ago, ended, made, sliced
from tests.integration.admin.store import add_waiting, add_worker
from tests.integration.admin.test_cache_page import add_gateway

pytestmark = [pytest.mark.browser, NEEDS_BROWSER]

PASSWORD = "a long enough password"
LOOKS = ["en-light", "en-dark", "zh-light", "zh-dark"]
WAITING = {"state": "waiting", "held_by": "", "held_until": None, "attempt": 0}


@pytest.fixture
def late(transactional_db: None, valkey: "Redis", monkeypatch: pytest.MonkeyPatch) -> BulkJob:
    """A batch that will end too late, beside others of every kind; and something on the other live pages."""
    monkeypatch.setattr(stands, "_memory", RateMemory())
    User.objects.create_superuser("admin", password=PASSWORD)
    plan = Plan.objects.create(name="gold")
    acme, bolt = (Tenant.objects.create(slug=slug, name=slug.title(), plan=plan) for slug in ("acme", "bolt"))
    steady = made(acme, 2, total=50_000, created_at=ago(hours=2), model="smollm2-135m-instruct")
    sliced(steady, *({"completed": 1_900, "failed": 6, "held_until": ago(hours=-1)} for _ in range(16)))
    late = made(bolt, 3, total=10_000, created_at=ago(hours=20), waiting_for="requests_per_day")
    lost = {"held_until": ago(minutes=2), "attempt": 3, "held_by": "bulk-2"}
    sliced(late, {"completed": 3_100, "failed": 220, "held_until": ago(hours=-1)}, lost, WAITING)
    sliced(made(acme, 4, waiting_for="no_backend"), {"completed": 400, "held_until": ago(hours=-1)})
    made(bolt, 5, status="validating", in_progress_at=None, total=0, created_at=timezone.now())
    made(acme, 6, status="cancelling", cancelling_at=ago(minutes=1))
    wrong = [{"code": "invalid_json_line", "line": line, "message": "x", "param": None} for line in (3, 17)]
    for number, status in enumerate(("completed", "failed", "expired", "cancelled") * 9):
        errors = wrong if status == "failed" else []
        counts = {"completed": 0, "failed": 0, "total": 0} if errors else {}
        ended(acme, 100 + number, status, errors=errors, created_at=ago(hours=3 + number), **counts)
    add_worker(valkey, "worker-0")
    add_waiting(valkey, "p2", {"acme": 3})
    add_gateway(valkey, "gateway-1")
    return late


@pytest.fixture(params=LOOKS)
def operator(
    request: pytest.FixtureRequest, chromium: Chromium, live_server: Any, late: BulkJob, tmp_path: Path
) -> Iterator[Operator]:
    language, looks = request.param.split("-")
    pictures = Path(os.environ.get("TEST_PICTURES", tmp_path))
    with open_browser(chromium, live_server.url, pictures, language, looks) as operator:
        operator.login(PASSWORD)
        yield operator


def look(operator: Operator, page: str, late: BulkJob) -> None:
    """Open a page and wait until its script has filled it."""
    operator.open(page, *([late.public_id] if page.startswith("batch") and page != "batches" else []))
    filled = {
        "batches": "#open tr",
        "batch": "#slices tr",
        "batch-cancel": "#consequence",
        "queues": ".sluice-queue",
        "cache": "#gateways tr",
    }
    operator.wait_for(filled[page])


@pytest.mark.parametrize("page", ["batches", "batch", "batch-cancel"])
def test_a_page_is_legible_and_asks_no_other_host(
    operator: Operator, page: str, late: BulkJob, request: pytest.FixtureRequest
) -> None:
    look(operator, page, late)
    operator.picture(f"{page}-{request.node.callspec.params['operator']}", whole=True)

    assert operator.pale_texts() == []
    assert operator.hosts() <= {operator.base_url.partition("//")[2]}
    assert operator.complaints() == []


@NEEDS_AXE
@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
@pytest.mark.parametrize("page", ["batches", "batch", "batch-cancel", "queues", "cache"])
def test_axe_finds_nothing(operator: Operator, page: str, late: BulkJob) -> None:
    look(operator, page, late)

    assert violations(operator) == []


@NEEDS_AXE
@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_without_any_batch_the_page_says_what_to_do(operator: Operator) -> None:
    BulkJob.objects.all().delete()
    operator.open("batches")

    operator.wait_for("#empty:not([hidden])")
    operator.picture("batches-empty")
    assert "POST /v1/batches" in operator.text("#empty")
    assert not operator.shows("#open-panel")
    assert violations(operator) == []


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_what_will_be_late_is_on_top_and_leads_to_its_page(operator: Operator, late: BulkJob) -> None:
    operator.open("batches")
    operator.wait_for("#troubles [data-level=bad]")

    trouble = operator.texts("#troubles li")[0]
    assert trouble.startswith(f"{late.public_id} bolt: At this rate it ends")
    assert operator.texts("#open tr [data-field=id]")[0] == late.public_id
    assert "after it expires" in operator.texts("#open tr [data-field=when_note]")[0]
    operator.click("#troubles a")
    operator.wait_for("#slices tr")
    assert operator.address.endswith(reverse("batch", args=[late.public_id]))
    assert operator.texts("#slices [data-field=state]") == ["Runs", "Lost", "Waits"]


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_figures_change_in_place_and_the_keyboard_stays(operator: Operator, late: BulkJob) -> None:
    look(operator, "batches", late)
    operator.focus("#open tr:nth-child(2) a")

    BulkSlice.objects.filter(job=late, number=0).update(completed=3_333)

    operator.wait_for_text("#open [data-field=counts]", "3,333 completed")
    assert operator.keeps_focus()


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_lists_are_narrowed_and_paged(operator: Operator, late: BulkJob) -> None:
    look(operator, "batches", late)
    operator.wait_for("#ended tr")
    assert len(operator.texts("#ended tr")) == 25
    operator.click("[data-page=older]")
    operator.wait_for_text("#pages [data-field=page]", "2")
    assert len(operator.texts("#ended tr")) == 11
    operator.click("#tenant")
    operator.type("bolt")
    operator.press("Enter")
    operator.wait_for("#no-ended:not([hidden])")
    assert set(operator.texts("#open [data-field=tenant]")) == {"bolt"}
    assert "tenant=bolt" in operator.address


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_a_batch_is_cancelled_with_a_reason(operator: Operator, late: BulkJob) -> None:
    look(operator, "batch", late)
    operator.click("#cancel")
    operator.wait_for("#consequence")
    operator.fill("#reason", "it starves others")
    operator.click("#content button[type=submit]")

    operator.wait_for("#actions")
    assert "it starves others" in operator.texts("#actions tbody tr")[0]
    assert OperatorAction.objects.get().target == late.public_id
    now = timezone.now()
    BulkSlice.objects.filter(job=late).delete()
    BulkJob.objects.filter(pk=late.pk).update(status="cancelled", cancelled_at=now + timedelta(seconds=1))
    operator.wait_for("#live[data-status=cancelled]")
    assert operator.complaints() == []
