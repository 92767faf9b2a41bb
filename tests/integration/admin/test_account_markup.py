"""The page on which tenants see their own limits and usage, as a browser gets it."""

import re

import pytest
from django.test import Client
from django.utils import translation

from gateway.errors import Refusal
from gateway_admin.account_page import page_words

CHINESE = re.compile(r"[\u4e00-\u9fff]")


def test_the_page_is_open_to_everybody_and_asks_no_database(client: Client) -> None:
    page = client.get("/account")

    assert page.status_code == 200
    assert not page.cookies


def test_the_policy_lets_nothing_run_but_files_of_this_host(client: Client) -> None:
    page = client.get("/account")

    policy = dict(part.split(" ", 1) for part in page["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert {policy[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert {policy[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert page["Referrer-Policy"] == "no-referrer"


def test_nothing_in_the_page_needs_more_than_the_policy_gives(client: Client) -> None:
    text = client.get("/account").content.decode()

    scripts = re.findall(r"<script([^>]*)>", text)
    assert [tag for tag in scripts if "src=" not in tag and 'type="application/json"' not in tag] == []
    assert not re.search(r"\sstyle=|\son\w+=|https?://|<style", text)
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', text):
        assert client.get(path).status_code == 200


def test_the_form_cannot_put_the_key_into_an_address(client: Client) -> None:
    text = client.get("/account").content.decode()

    field = re.search(r"<input[^>]*>", text)
    assert field
    assert "name=" not in field[0]
    assert 'autocomplete="off"' in field[0]


@pytest.mark.parametrize(
    ("query", "header", "language"),
    [
        ("", "zh-CN,zh", "zh-hans"),
        ("", "de", "en"),
        ("?language=zh-hans", "en", "zh-hans"),
        ("?language=xx", "en", "en"),
    ],
)
def test_the_language_is_the_browsers_or_the_chosen_one(client: Client, query: str, header: str, language: str) -> None:
    page = client.get(f"/account{query}", headers={"accept-language": header})

    assert f'<html lang="{language}">' in page.content.decode()
    assert page["Content-Language"] == language


def test_every_text_is_chinese_in_chinese(client: Client) -> None:
    def english_in(words: object) -> list[str]:
        if isinstance(words, dict):
            return [text for entry in words.values() for text in english_in(entry)]
        return [] if CHINESE.search(str(words)) else [str(words)]

    with translation.override("zh-hans"):
        assert set(english_in(page_words())) <= {"Token", "{used} / {limit}"}
    page = client.get("/account?language=zh-hans").content.decode()
    shown = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    english = [text.strip() for text in re.findall(r">([^<>]+)<", shown) if re.search(r"[a-z]{3}", text)]
    assert [text for text in english if not CHINESE.search(text)] == ["English", "service_tier"]


def test_every_refusal_that_the_page_explains_exists() -> None:
    assert set(page_words()["errors"]) - {"away", "other"} <= {why.value for why in Refusal}
