"""What a key may do, and from where."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from http_face import ASKING_KEY, AWAY_KEY, HOME_KEY, READING_KEY, Pipeline
from pytest_django import Settings

from gateway.runtime import runtime

Ask = Callable[..., httpx.Response]
CHAT = "/v1/chat/completions"


@pytest.fixture
def ask(base_url: str, behind: Pipeline) -> Iterator[Ask]:
    """Ask with a key and further headers, which may repeat."""
    body = {"model": runtime().config.model_name, "messages": [{"role": "user", "content": "hi"}]}
    with httpx.Client(base_url=base_url, timeout=30) as client:
        yield lambda key, *headers: client.post(CHAT, json=body, headers=[("authorization", f"Bearer {key}"), *headers])


@pytest.fixture
def proxied(settings: Settings) -> None:
    """Whoever calls from this machine is a proxy that is believed."""
    settings.SLUICE = replace(settings.SLUICE, trusted_proxies=("127.0.0.0/8", "10.0.0.0/8"))


@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings"])
def test_a_key_without_inference_asks_no_model(base_url: str, behind: Pipeline, path: str) -> None:
    answer = httpx.post(base_url + path, content=b"not json", headers={"authorization": f"Bearer {READING_KEY}"})

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["reason"]) == (403, "insufficient_scope", "scope_missing")
    assert "Missing scopes: inference" in error["message"]
    assert behind.seen == []


def test_every_key_lists_the_models(base_url: str, behind: Pipeline) -> None:
    for key in (ASKING_KEY, READING_KEY):
        assert httpx.get(f"{base_url}/v1/models", headers={"authorization": f"Bearer {key}"}).status_code == 200


def test_a_key_asks_from_its_address_only(ask: Ask, behind: Pipeline) -> None:
    assert ask(HOME_KEY).status_code == 200

    refused = ask(AWAY_KEY)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["reason"]) == (403, *["address_not_allowed"] * 2)
    assert "127.0.0.1" in error["message"]
    assert len(behind.seen) == 1


SPOOFED = [
    [("x-forwarded-for", "203.0.113.9")],
    [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", "203.0.113.9")],
    [("x-real-ip", "203.0.113.9"), ("forwarded", "for=203.0.113.9"), ("x-client-ip", "203.0.113.9")],
    [("true-client-ip", "203.0.113.9"), ("cf-connecting-ip", "203.0.113.9"), ("via", "203.0.113.9")],
]


@pytest.mark.parametrize("headers", SPOOFED)
def test_no_header_moves_a_client_unless_a_proxy_is_trusted(ask: Ask, headers: list[tuple[str, str]]) -> None:
    assert ask(AWAY_KEY, *headers).status_code == 403
    assert ask(HOME_KEY, *headers).status_code == 200


@pytest.mark.usefixtures("proxied")
@pytest.mark.parametrize(
    ("forwarded", "status"),
    [
        (["203.0.113.9"], 200),
        (["2001:db8::9"], 200),
        (["198.51.100.1, 203.0.113.9, 10.0.0.5"], 200),
        (["203.0.113.9, 198.51.100.1"], 403),
        (["203.0.113.9", "198.51.100.1"], 403),
        (["203.0.113.9, nobody"], 403),
        ([], 403),
    ],
)
def test_a_trusted_proxy_is_believed_as_far_as_it_wrote(ask: Ask, forwarded: list[str], status: int) -> None:
    assert ask(AWAY_KEY, *[("x-forwarded-for", value) for value in forwarded]).status_code == status


@pytest.mark.usefixtures("proxied")
def test_other_headers_are_not_believed_of_a_trusted_proxy_either(ask: Ask) -> None:
    assert [ask(AWAY_KEY, *headers).status_code for headers in SPOOFED[2:]] == [403, 403]
