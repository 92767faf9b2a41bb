"""The pages "Traces" and "Why slow" in a real browser, on requests kept by hand."""

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import reverse

from domain.trace.record import Record
from tests.acceptance.axe import NEEDS_AXE, violations
from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser
from tests.integration.admin.test_trace_pages import made
from tracing.clock import now_us
from tracing.store.writing import store

pytestmark = [pytest.mark.browser, NEEDS_BROWSER]

PASSWORD = "a long enough password"
LOOKS = ["en-light", "zh-dark"]
PAGES = ["traces", "trace", "why-slow"]


@pytest.fixture
def kept(transactional_db: None) -> list[Record]:
    """A slow request with its moments, its batch mate, and many quick ones."""
    User.objects.create_superuser("admin", password=PASSWORD)
    begin_us = now_us() - 5_000_000
    late = {"answered_us": begin_us + 700_000, "ended_us": begin_us + 800_000}
    slow, mate = made(900, begin_us, **late), made(901, begin_us)
    others = [made(number, begin_us - 1_000_000) for number in range(40)]
    others += [made(number, begin_us, **late) for number in (50, 51)]
    store([("slow", slow), ("", mate), *(("", _in_another_batch(one)) for one in others)])
    return [slow, mate]


def _in_another_batch(record: Record) -> Record:
    return replace(record, runs=(replace(record.runs[0], batch_id=f"b-{record.request_id[:8]}"),))


@pytest.fixture(params=LOOKS)
def operator(
    request: pytest.FixtureRequest, chromium: Chromium, live_server: Any, kept: list[Record], tmp_path: Path
) -> Iterator[Operator]:
    language, looks = request.param.split("-")
    pictures = Path(os.environ.get("TEST_PICTURES", tmp_path))
    with open_browser(chromium, live_server.url, pictures, language, looks) as operator:
        operator.login(PASSWORD)
        yield operator


def look(operator: Operator, page: str, kept: list[Record]) -> None:
    operator.open(page, *([kept[0].request_id] if page == "trace" else []))
    operator.wait_for("#content table")


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_legible_and_asks_no_other_host(
    operator: Operator, page: str, kept: list[Record], request: pytest.FixtureRequest
) -> None:
    look(operator, page, kept)
    operator.picture(f"{page}-{request.node.callspec.params['operator']}", whole=True)

    assert operator.pale_texts() == []
    assert operator.hosts() <= {operator.base_url.partition("//")[2]}
    assert operator.complaints() == []


@NEEDS_AXE
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing(operator: Operator, page: str, kept: list[Record]) -> None:
    look(operator, page, kept)

    assert violations(operator) == []


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_a_beginning_of_an_id_is_typed_found_opened_and_its_batch_mate_followed(
    operator: Operator, kept: list[Record]
) -> None:
    slow, mate = kept
    operator.open("traces")
    operator.wait_for("#id_q:focus")
    operator.type(slow.trace_id[:9])
    operator.press("Enter")
    operator.wait_for_text("#found-title", "Found")
    assert operator.texts("td a.sluice-mono") == [slow.request_id]

    operator.click("td a.sluice-mono")
    operator.wait_for("#waterfall-title")
    assert operator.address.endswith(reverse("trace", args=[slow.request_id]))
    operator.click("summary")
    assert operator.texts(".sluice-attributes dd")

    operator.wait_for("#mates-title")
    operator.click('[aria-labelledby="mates-title"] td a.sluice-mono')
    operator.wait_for_address(reverse("trace", args=[mate.request_id]))
    operator.wait_for_text("h1, h2, #header, body", mate.request_id)


@pytest.mark.parametrize("operator", ["en-light"], indirect=True)
def test_why_slow_leads_to_the_slow_request(operator: Operator, kept: list[Record]) -> None:
    operator.open("why-slow")
    operator.wait_for("#tree-title")
    operator.click("dl.sluice-tiles a.sluice-link")
    operator.wait_for("#found-title")
    found = operator.texts("td a.sluice-mono")
    assert len(found) == 3
    assert kept[0].request_id in found
