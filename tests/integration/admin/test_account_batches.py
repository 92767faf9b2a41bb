"""Batches on the page on which tenants see their own limits and usage."""

import re

import pytest
from django.test import Client
from django.utils import translation

from domain.bulk.again import UNAVAILABLE
from domain.bulk.status import JobStatus
from domain.limits import KINDS
from gateway.errors import TABLE, Refusal
from gateway.scopes import INFERENCE
from gateway_admin.account_page import page_words
from tenants.models import SCOPE_CHOICES

CHINESE = re.compile(r"[\u4e00-\u9fff]")
SCRIPTS = ("account.js", "account_batches.js", "account_numbers.js")


@pytest.fixture
def scripts(client: Client) -> str:
    """What the page's scripts say, as a browser gets them."""
    return "".join(client.get(f"/static/sluice/{name}").text for name in SCRIPTS)


def test_the_section_is_shown_once_a_key_is_known_that_may_see_it(client: Client, scripts: str) -> None:
    text = client.get("/account").text

    section = re.search(r'<section id="batches"[^>]*>', text)
    assert section
    assert section[0].endswith(" hidden>")
    assert f'scopes.includes("{INFERENCE}")' in scripts
    assert INFERENCE in dict(SCOPE_CHOICES)


def test_there_is_a_place_for_everything_that_the_script_writes(client: Client, scripts: str) -> None:
    text = client.get("/account").text

    wanted = set(re.findall(r'byId\("([\w-]+)"\)', scripts))
    assert {"batches", "batches-alert", "batch-rows", "batch-table", "no-batches", "files"} <= wanted
    assert [name for name in wanted if f'id="{name}"' not in text] == []


def test_no_batches_is_said_in_words_and_told_from_an_error(client: Client) -> None:
    text = client.get("/account").text
    assert re.search(r'id="no-batches" class="empty" hidden>You have no batches', text)
    assert re.search(r'id="batches-alert" class="alert" role="alert" hidden>', text)


def test_ten_batches_are_asked_for_and_as_many_files_as_there_are_at_once(scripts: str) -> None:
    assert "const SHOWN = 10;" in scripts
    assert "/v1/batches?limit=" in scripts
    assert "/v1/files?limit=" in scripts


def test_every_status_has_a_name(scripts: str) -> None:
    words = page_words()
    assert set(words["statuses"]) == {status.value for status in JobStatus}
    assert set(re.findall(r"words\.(\w+)", scripts)) <= set(words)


def test_what_a_batch_waits_for_is_told_in_words_or_by_its_own_name() -> None:
    words = page_words()

    assert set(words["waits"]) <= {why.value for why in Refusal}
    assert {TABLE[Refusal(why)].status for why in words["waits"]} <= UNAVAILABLE
    assert set(words["waits"]) & set(KINDS) == set()
    assert "{limit}" in words["waits_limit"]
    assert "{reason}" in words["waits_other"]


def test_it_speaks_chinese(client: Client) -> None:
    text = client.get("/account?language=zh-hans").text
    (section,) = re.findall(r'<section id="batches".*?</section>', text, flags=re.S)
    shown = [words.strip() for words in re.findall(r">([^<>]+)<", section) if words.strip()]
    assert [words for words in shown if not CHINESE.search(words)] == []
    with translation.override("zh-hans"):
        words = page_words()
        names = [*words["statuses"].values(), *words["waits"].values(), words["expires"], words["files"]]
        assert [str(name) for name in names if not CHINESE.search(str(name))] == []
