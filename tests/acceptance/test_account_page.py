"""The tenants' page in a real browser, on the running product."""

import json
import re
from pathlib import Path

import pytest

from tests.acceptance.browser import NEEDS_BROWSER, Chromium, Operator, open_browser
from tests.stack import Stack, wait_until

pytestmark = [pytest.mark.browser, pytest.mark.stack, NEEDS_BROWSER]

MODEL = "smollm2-135m-instruct"
USAGE = re.compile("/v1/usage")
KEPT = "JSON.stringify(Object.values(sessionStorage)) + location.href + JSON.stringify(Object.values(localStorage))"


@pytest.fixture(scope="module")
def key(sim: Stack) -> str:
    """The key of a tenant with a few limits, and one answered request in its usage."""
    plan = {"requests_per_day": 50, "tokens_per_month": 100_000, "cost_per_month": "5.00", "max_concurrent": 3}
    made = sim.add_tenants({"page": plan})["page"]
    with sim.client(api_key=made) as client:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], max_tokens=5)
    wait_until(lambda: sim.store().xlen("sl:settle") == 0, 20)
    return made


def sign_in(person: Operator, key: str) -> None:
    person.fill("#key", key)
    person.press("Enter")


@pytest.mark.parametrize(("language", "looks"), [("en", "light"), ("zh", "dark")])
def test_a_key_opens_the_page_and_nothing_keeps_it(
    chromium: Chromium, sim: Stack, key: str, tmp_path: Path, language: str, looks: str
) -> None:
    with open_browser(chromium, sim.root_url, tmp_path, language, looks) as person:
        person.open("account")
        person.wait_for("#sign-in:not([hidden])")
        assert person.focused("id") == "key"

        sign_in(person, "sk-sluice-00000000-wrong")
        person.wait_for("#alert:not([hidden])")
        assert person.shows("#account") is False

        sign_in(person, key)
        person.wait_for("#sums tr")
        day = '[data-limit="tenant:requests_per_day"]'
        person.wait_for_text(day, "50")
        assert len(person.texts("#limits li")) == 4
        assert person.texts("#sums th") == [MODEL]
        assert person.texts("#sums td")[0] == "1"
        assert person.texts("#chart rect")
        assert person.shows("#alert") is False
        assert person.pale_texts("body") == []
        assert {host.partition(":")[0] for host in person.hosts()} == {"127.0.0.1"}

        person.reload()
        person.wait_for("#sums tr")
        person.click("#forget")
        person.wait_for("#sign-in:not([hidden])")
        assert key not in person.run(KEPT)
        assert key not in person.do(lambda page: page.content())
        # The wrong key's answer is the only thing that a browser complains about.
        assert [text for text in person.complaints() if "401" not in text] == []


def test_a_key_without_the_scope_is_told_so_and_a_gateway_that_is_away_too(
    chromium: Chromium, sim: Stack, key: str, tmp_path: Path
) -> None:
    with open_browser(chromium, sim.root_url, tmp_path) as person:
        person.open("account")
        sign_in(person, key)
        person.wait_for("#sums tr")

        person.do(lambda page: page.route(USAGE, lambda route: route.abort()))
        person.choose("#measure", 2)
        person.choose("#group", 0)
        person.wait_for("#usage-alert:not([hidden])")
        assert person.shows("#limits")

        person.do(lambda page: page.unroute(USAGE))
        person.choose("#group", 3)
        person.wait_for("#usage-alert[hidden]")
        person.wait_for_text("#sums th", "P1")


def test_the_file_holds_what_the_page_shows(chromium: Chromium, sim: Stack, key: str, tmp_path: Path) -> None:
    with open_browser(chromium, sim.root_url, tmp_path) as person:
        person.open("account")
        sign_in(person, key)
        person.wait_for("#sums tr")
        file = person.download("#download")

        assert file.match("sluice-usage-page-*.csv")
        head, row, *more = file.read_text(encoding="utf-8-sig").splitlines()
        assert head.split(",")[:3] == ["starts_at", "model", "requests"]
        assert row.split(",")[1:3] == [MODEL, "1"]
        assert more == []
        assert key not in json.dumps([head, row, file.name])
