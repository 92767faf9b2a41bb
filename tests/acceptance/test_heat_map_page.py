"""The pages "Heat map", "Now" and "Service map" in a real browser: on rows kept by hand, and on the running product."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from redis import Redis

from gateway_admin.now import read_recent
from tests import stack
from tests.acceptance.axe import NEEDS_AXE, violations
from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser
from tests.acceptance.load import body_of, post_all
from tests.integration.admin.store import add_waiting, add_worker
from tests.integration.admin.stored_requests import ago, asked, keep, travelled

pytestmark = [pytest.mark.browser, NEEDS_BROWSER]

PASSWORD = "a long enough password"
LOOKS = ["en-light", "en-dark", "zh-light", "zh-dark"]
MAP_ROW = "#tenants tr"
READY = {"heat-map": "#totals a", "now": "#workers tr", "service-map": "#map svg"}


@pytest.fixture
def traffic(transactional_db: None, valkey: "Redis") -> "Redis":
    """Two workers of whom one is slow and fails now and then, and more tenants than have a line of their own."""
    User.objects.create_superuser("admin", password=PASSWORD)
    read_recent.cache_clear()
    for number in range(24):
        tenant = f"tenant-{number:02}"
        keep(
            *(travelled(ago(seconds=20 + place), tenant=tenant, gateway_id="gateway-1") for place in range(30 - number))
        )
    keep(
        *(
            asked(ago(minutes=2), 700, first_ms=400, tenant="tenant-03", status=200 + 302 * (n % 9 == 0))
            for n in range(40)
        )
    )
    keep(*(asked(ago(seconds=9), 3_000, worker="worker-1", tenant="tenant-05", status=502) for _ in range(3)))
    keep(asked(ago(minutes=1), 3, worker="", tenant="", status=401))
    add_worker(valkey, "worker-0")
    add_worker(valkey, "worker-1", state="failed", reason="probe failed", running=0)
    add_waiting(valkey, "p1", {"tenant-00": 4, "tenant-03": 9}, oldest_ms=700)
    return valkey


@pytest.fixture(params=LOOKS)
def operator(
    request: pytest.FixtureRequest, chromium: Chromium, live_server: Any, traffic: "Redis", tmp_path: Path
) -> Iterator[Operator]:
    language, looks = request.param.split("-")
    pictures = Path(os.environ.get("TEST_PICTURES", tmp_path))
    with open_browser(chromium, live_server.url, pictures, language, looks) as operator:
        operator.login(PASSWORD)
        yield operator


def look(operator: Operator, page: str, query: str = "") -> None:
    operator.open(page, query=query)
    operator.wait_for(READY.get(page, "#requests"))


@pytest.mark.parametrize("page", list(READY))
def test_a_page_is_legible_and_asks_no_other_host(
    operator: Operator, page: str, request: pytest.FixtureRequest
) -> None:
    look(operator, page, "?split=on")
    operator.picture(f"{page}-{request.node.callspec.params['operator']}", whole=True)

    assert operator.pale_texts() == []
    assert operator.hosts() == {operator.base_url.partition("//")[2]}
    assert operator.complaints() == []


@NEEDS_AXE
@pytest.mark.parametrize("page", [*READY, "heat-cell"])
@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_axe_finds_nothing(operator: Operator, page: str) -> None:
    look(operator, page)

    assert violations(operator) == []


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_a_choice_stands_in_the_address_and_is_drawn_without_loading_the_page(operator: Operator) -> None:
    look(operator, "heat-map")
    assert len(operator.texts(f"{MAP_ROW}:first-child td")) == 4
    operator.run("window.mark = 1")

    operator.click("#split")
    operator.wait_for(f"{MAP_ROW}:first-child td:nth-of-type(7)")

    assert operator.run("window.mark") == 1
    address = operator.address
    assert "split=on" in address
    operator.go(address)
    operator.wait_for(f"{MAP_ROW}:first-child td:nth-of-type(7)")
    assert operator.is_checked("#split")


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_the_map_follows_and_the_keyboard_stays_on_its_cell(operator: Operator) -> None:
    look(operator, "heat-map")
    rows = operator.texts(f"{MAP_ROW} th")
    assert len(rows) == 21
    assert rows[-1] == "5 other tenants"
    operator.focus('tr[data-key="t:tenant-09"] td[data-place="1"] a')

    keep(*(asked(ago(seconds=1), 121, tenant="tenant-09") for _ in range(200)))

    operator.wait_for_text('tr[data-key="t:tenant-09"] td[data-place="1"] strong', "221")
    assert operator.texts(f"{MAP_ROW} th")[0] == "tenant-09"
    focused = operator.run("document.activeElement.closest('tr')?.dataset.key")
    assert focused == "t:tenant-09"


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_a_cell_leads_to_its_instances_and_requests_and_back(operator: Operator) -> None:
    look(operator, "heat-map")
    cell = 'tr[data-key="t:tenant-05"] td[data-place="2"] a'
    operator.focus(cell)
    operator.press("Enter")
    operator.wait_for("#instances")

    assert operator.text("#requests") == "3"
    assert operator.texts("#instances tbody th") == ["worker-1"]
    assert operator.pale_texts() == []
    operator.picture("heat-cell", whole=True)
    operator.click("#content .sluice-back a")
    operator.wait_for("#go-on")
    operator.wait_for(cell)
    assert operator.text(cell).splitlines()[0] == "3"


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_now_names_what_is_wrong_and_follows_every_second(operator: Operator, traffic: "Redis") -> None:
    look(operator, "now")
    operator.wait_for_text("#troubles li", "worker-1")
    assert "failed" in operator.texts("#troubles li")[0]
    operator.wait_for("[data-spark=requests_per_s] path")

    add_waiting(traffic, "p0", {"tenant-00": 5})
    operator.wait_for_text('[data-class="p0"] [data-field=count]', "5")
    traffic.delete("sl:worker:worker-1")
    operator.wait_for_text("[data-field=engines]", "1 of 1")


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_pages_without_requests_say_what_to_do(operator: Operator, traffic: "Redis", django_db_blocker: Any) -> None:
    from tracing.models import RequestSum, StoredRequest

    StoredRequest.objects.all().delete()
    RequestSum.objects.all().delete()
    read_recent.cache_clear()

    for page, hint in (("heat-map", "#never-used"), ("now", "#never"), ("service-map", "#map-empty")):
        operator.open(page)
        operator.wait_for(f"{hint}:not([hidden])")
        operator.picture(f"{page}-empty")
        assert operator.pale_texts() == []


@pytest.mark.stack
def test_on_the_running_product_a_slow_cell_leads_to_its_requests(chromium: Chromium, tmp_path: Path) -> None:
    options = ("--engine", "simulator", "--gateways", "2", "--workers", "2", "--no-flower", "--sim-profile", "zero")
    with stack.start(tmp_path / "data", *options) as product:
        quick = [body_of() for _ in range(12)]
        slow = [body_of("delay=0.7") for _ in range(6)]
        failing = [body_of("error=500") for _ in range(2)]
        key = product.add_tenants({"acme": {}})["acme"]
        answers = asyncio.run(post_all(product, [*quick, *slow, *failing], key))
        ids = {answer.headers["x-request-id"] for answer in answers[12:18]}
        pictures = Path(os.environ.get("TEST_PICTURES", tmp_path))
        with open_browser(chromium, product.root_url, pictures) as operator:
            operator.login(str(product.ready["admin_password"]), str(product.ready["admin_user"]))
            operator.open("heat-map")
            operator.wait_for_text('tr[data-key="t:acme"] td[data-place=total] strong', "20")
            operator.click('tr[data-key="t:acme"] td[data-place="2"] a')
            operator.wait_for("#instances")
            shown = set(operator.texts("td a.sluice-mono"))
            assert ids <= shown
            operator.click("td a.sluice-mono")
            operator.wait_for("h1, h2")
            assert "/admin/traces/" in operator.address
            operator.open("service-map")
            operator.wait_for("#map svg")
            assert len(operator.texts("#map .sluice-node")) >= 6
            operator.open("now")
            operator.wait_for_text("[data-field=engines]", "2")
            assert operator.complaints() == []
