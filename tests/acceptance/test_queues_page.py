"""The page "Queues" in a real browser: on a store filled by hand, and on the running product under load."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from django.contrib.auth.models import User
from django.urls import reverse
from redis import Redis

from tests import stack
from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser
from tests.integration.admin.store import MODEL, add_tokens, add_waiting, add_worker

pytestmark = [pytest.mark.browser, NEEDS_BROWSER]

PASSWORD = "a long enough password"
P2 = f'[data-queue="{MODEL}:p2"]'


@pytest.fixture
def store(transactional_db: None, valkey: "Redis") -> "Redis":
    """Two full workers, one of them held back, and all three classes waiting."""
    User.objects.create_superuser("admin", password=PASSWORD)
    add_worker(valkey, "worker-0", running=32, cap=None, cap_reason=None)
    add_worker(valkey, "worker-1", padding_waste=0.04, state="ready", classes="p1,p2", reserve_p0=None)
    add_waiting(valkey, "p0", {"bank": 2}, oldest_ms=4)
    add_waiting(valkey, "p1", {"acme": 14, "bolt": 3, "newcomer": 1}, oldest_ms=4_200)
    add_waiting(valkey, "p2", {f"tenant-{number:02}": 3 for number in range(30)}, oldest_ms=41_000)
    add_tokens(valkey, "p0", {"bank": 5_000, "broker": 2_500})
    add_tokens(valkey, "p1", {"acme": 62_000, "bolt": 31_000, "crane": 9_000})
    add_tokens(valkey, "p2", {f"tenant-{number:02}": 1000 - number for number in range(30)})
    for qos_class, room, wait_ms in (("p0", 4, 3), ("p1", 0, 350), ("p2", 0, 2_100)):
        valkey.hset(f"sl:room:{MODEL}:{qos_class}", "worker-0", room)
        valkey.rpush(f"sl:waits:{MODEL}:{qos_class}", *range(wait_ms, wait_ms * 2, max(1, wait_ms // 50)))
    window = {"capacity": 12, "last_closed_by": "size", "wait_ms": 31, "closed": 9, "at": 1_900_000_000_000}
    valkey.hset(f"sl:windows:{MODEL}:p1", mapping=window)
    valkey.set(f"sl:bytes:{MODEL}:p2", 70 * 2**20)
    valkey.zadd(f"sl:trial:{MODEL}", {"suspect": 1})
    return valkey


@pytest.fixture(params=["en-light", "en-dark", "zh-light", "zh-dark"])
def operator(
    request: pytest.FixtureRequest, chromium: Chromium, live_server: Any, store: "Redis", tmp_path: Path
) -> Iterator[Operator]:
    language, looks = request.param.split("-")
    with open_browser(chromium, live_server.url, tmp_path, language, looks) as operator:
        operator.login(PASSWORD)
        operator.open("queues")
        operator.wait_for(P2)
        yield operator


def test_the_page_shows_queues_tenants_and_workers(operator: Operator) -> None:
    operator.picture("queues", whole=True)

    assert operator.texts(".sluice-queue [data-field=waiting]") == ["2", "18", "90"]
    assert operator.texts(f"{P2} [data-rows=shares] [data-field=tenant]")[0] == "tenant-00"
    assert len(operator.texts(f"{P2} [data-rows=shares] li")) == 21
    assert operator.texts("[data-rows=workers] [data-field=id]") == ["worker-0", "worker-1"]
    assert operator.complaints() == []


def test_nothing_is_pale_and_every_link_has_a_name(operator: Operator) -> None:
    names = "[...document.querySelectorAll('#live a')].filter(a => !(a.ariaLabel || a.textContent).trim()).length"

    assert operator.pale_texts() == []
    assert operator.run(names) == 0


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_the_keyboard_stays_where_it_is_while_figures_change(operator: Operator, store: "Redis") -> None:
    operator.focus(f"{P2} [data-action=pause]")

    store.zadd(f"sl:ready:{MODEL}:p2", {"one-more": 1})

    operator.wait_for_text(f"{P2} [data-field=waiting]", "91")
    assert operator.keeps_focus()
    operator.press("Tab")
    assert operator.run("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    assert operator.focused("data-action") == "drain"


@pytest.mark.parametrize("operator", ["en-dark", "zh-light"], indirect=True)
def test_another_operators_switch_shows_without_loading_the_page_again(operator: Operator, store: "Redis") -> None:
    store.hset("sl:switch", f"queue:{MODEL}:p2", "paused")

    operator.wait_for(f"{P2} [data-field=state][data-state=paused]")
    operator.wait_for("#troubles [data-level=bad]")
    assert not operator.shows(f"{P2} [data-action=pause]")
    assert operator.shows(f"{P2} [data-action=open]")


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_a_queue_is_paused_with_a_reason(operator: Operator, store: "Redis") -> None:
    operator.click(f"{P2} [data-action=pause]")
    operator.wait_for("#consequence")
    operator.picture("switch")
    assert operator.pale_texts() == []
    operator.click("label[for=reason]")
    assert operator.focused("name") == "reason"
    operator.type("engine update")
    operator.press("Enter")

    operator.wait_for(f"{P2} [data-field=state][data-state=paused]")
    operator.picture("queues_paused", whole=True)
    assert store.hgetall("sl:switch") == {f"queue:{MODEL}:p2": "paused"}
    assert "engine update" in operator.texts("#actions tr")[0]
    assert operator.complaints() == []


@pytest.mark.parametrize("operator", ["en-light", "zh-dark"], indirect=True)
def test_an_empty_store_says_what_to_do(operator: Operator, store: "Redis") -> None:
    store.flushall()

    operator.wait_for("[data-empty=models]:not([hidden])")
    operator.picture("queues_empty")
    assert "make up" in operator.text("[data-empty=models]")
    assert operator.texts(".sluice-queue") == []


@contextmanager
def load(product: stack.Stack, tier: str, at_once: int) -> Iterator[None]:
    """Keep so many requests under way until the end; errors are none of a load's business."""
    ended = threading.Event()
    client = product.client(timeout=60)
    model = client.models.list().data[0].id

    def ask() -> None:
        while not ended.is_set():
            try:
                client.completions.create(
                    model=model, prompt="a river", max_tokens=60, extra_body={"service_tier": tier}
                )
            except openai.OpenAIError:
                ended.wait(0.2)

    threads = [threading.Thread(target=ask, daemon=True) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        product.store().delete("sl:switch")
        for thread in threads:
            thread.join(timeout=60)


@pytest.mark.stack
def test_on_the_running_product_a_class_is_paused_and_opened(chromium: Chromium, tmp_path: Path) -> None:
    options = ("--engine", "simulator", "--max-num-seqs", "8", "--workers", "2", "--no-flower")
    with stack.start(tmp_path / "data", *options) as product, load(product, "flex", 40):
        store = product.store()
        model = product.client().models.list().data[0].id
        queue = f'[data-queue="{model}:p2"]'
        pictures = Path(os.environ.get("TEST_PICTURES", tmp_path))
        with open_browser(chromium, product.root_url, pictures) as operator:
            operator.login(str(product.ready["admin_password"]), str(product.ready["admin_user"]))
            operator.open("queues")
            operator.wait_for(queue)
            stack.wait_until(lambda: store.zcard(f"sl:ready:{model}:p2"), 30, "nothing ever waited")
            operator.click(f"{queue} [data-action=pause]")
            operator.wait_for("#consequence")
            operator.fill("#reason", "engine update")
            operator.click("#content button[type=submit]")
            operator.wait_for(f"{queue} [data-field=state][data-state=paused]")
            stack.wait_until(lambda: not _running(store), 60, "a paused class went on being claimed")
            stack.wait_until(lambda: store.zcard(f"sl:ready:{model}:p2") == 40, 30, "what was sent does not wait")
            operator.wait_for_text("#troubles [data-level=bad]", "40")
            assert reverse("queues") in operator.address

            operator.click(f"{queue} [data-action=open]")
            operator.wait_for("#consequence")
            operator.click("#content button[type=submit]")
            operator.wait_for(f"{queue} [data-field=state][data-state=open]")
            stack.wait_until(lambda: _running(store), 60, "an opened class was not claimed")
            assert len(operator.texts("#actions tr")) == 2
            assert operator.complaints() == []


def _running(store: "Redis") -> int:
    return sum(store.scard(key) for key in store.scan_iter("sl:held:*"))
