"""Bodies that broke other gateways: each is refused with 400 in OpenAI's shape, and the next request is served."""

import json
from typing import Any

import httpx
import pytest
from http_face import Pipeline
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.runtime import runtime

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]


def raw(text: str) -> bytes:
    """A chat body with ``text`` as its further members."""
    start = json.dumps({"model": runtime().config.model_name, "messages": MESSAGES})
    return f"{start[:-1]}, {text}}}".encode()


HOSTILE = {
    "no body": lambda: b"",
    "truncated": lambda: raw('"n": 1')[:-5],
    "an array": lambda: b"[]",
    "byte order mark": lambda: b"\xef\xbb\xbf" + raw('"n": 1'),
    "two members of one name": lambda: raw('"n": 1, "n": 2'),
    "10,000 levels": lambda: b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "10,000 levels in a free field": lambda: raw('"chat_template_kwargs": ' + '{"a":' * 10_000 + "1" + "}" * 10_000),
    "10,000 arrays": lambda: b"[" * 10_000,
    "not UTF-8": lambda: b'{"model": "\xff"}',
    "half a surrogate pair": lambda: raw('"user": "\\ud800"'),
    "trailing bytes": lambda: raw('"n": 1') + b"{}",
    "UTF-16": lambda: raw('"n": 1').decode().encode("utf-16"),
    "temperature NaN": lambda: raw('"temperature": NaN'),
    "temperature Infinity": lambda: raw('"temperature": Infinity'),
    "temperature 1e999": lambda: raw('"temperature": 1e999'),
    "temperature 999999.0": lambda: raw('"temperature": 999999.0'),
    "top_p -1": lambda: raw('"top_p": -1'),
    "top_k 0.01": lambda: raw('"top_k": 0.01'),
    "logit_bias NaN": lambda: raw('"logit_bias": {"1": NaN}'),
    "max_tokens 0": lambda: raw('"max_tokens": 0'),
    "max_tokens -1": lambda: raw('"max_tokens": -1'),
    "max_tokens 1e12": lambda: raw('"max_tokens": 1e12'),
    "max_tokens 10^12": lambda: raw('"max_tokens": 1000000000000'),
    "max_tokens text": lambda: raw('"max_tokens": "5"'),
    "n 0": lambda: raw('"n": 0'),
    "n 1000": lambda: raw('"n": 1000'),
    "unknown field": lambda: raw('"foo": 1'),
    "scheduler's field": lambda: raw('"priority": -100'),
    "cache's field": lambda: raw('"cache_salt": "00000000000000000000000000000000"'),
    "transfer's field": lambda: raw('"kv_transfer_params": {}'),
    "a picture to fetch": lambda: json.dumps(
        {
            "model": runtime().config.model_name,
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": "http://169.254.169.254/latest/meta-data"}}],
                }
            ],
        }
    ).encode(),
}


def with_messages(messages: Any) -> dict[str, Any]:
    return {"model": runtime().config.model_name, "messages": messages}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_400_and_the_next_request_is_served(
    client: httpx.Client, behind: Pipeline, name: str
) -> None:
    response = client.post(CHAT, content=HOSTILE[name](), headers={"content-type": "application/json"})

    assert response.status_code == 400
    assert_openai_error(response)
    assert behind.seen == []
    assert client.post(CHAT, json=with_messages(MESSAGES)).status_code == 200


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([], 400),
        (None, 400),
        ([{"role": "assistant", "content": None}], 400),
        ([{"role": "user", "content": None}], 400),
        ([{"role": "wizard", "content": "x"}], 400),
        ([{"role": "assistant", "content": ""}, *MESSAGES], 200),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], 200),
    ],
)
def test_messages_that_others_stumbled_over(client: httpx.Client, behind: Pipeline, messages: Any, status: int) -> None:
    response = client.post(CHAT, json=with_messages(messages))

    assert response.status_code == status
    if status != 200:
        assert_openai_error(response)
    assert len(behind.seen) == (status == 200)


def test_missing_messages_are_named(client: httpx.Client) -> None:
    response = client.post(CHAT, json={"model": runtime().config.model_name})

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "messages"


def test_null_means_left_out_and_the_body_goes_on_byte_for_byte(client: httpx.Client, behind: Pipeline) -> None:
    body = raw('"max_tokens":   null, "user":"\\u00e9"')

    assert client.post(CHAT, content=body).status_code == 200
    assert behind.seen[0][2] == body
    assert behind.seen[0][1].max_tokens is None


def test_zero_tokens_with_echo_are_refused(client: httpx.Client, behind: Pipeline) -> None:
    body = {"model": runtime().config.model_name, "prompt": "x", "max_tokens": 0, "echo": True}
    response = client.post(COMPLETIONS, json=body)

    assert response.status_code == 400
    assert response.json()["error"]["param"] == "max_tokens"
    assert behind.seen == []


@pytest.mark.parametrize("content_type", [None, "application/json", "text/plain", "application/x-www-form-urlencoded"])
def test_any_content_type_that_may_be_json_is_read_as_json(
    client: httpx.Client, behind: Pipeline, content_type: str | None
) -> None:
    headers = {} if content_type is None else {"content-type": content_type}

    assert client.post(CHAT, content=raw('"n": 1'), headers=headers).status_code == 200


def test_a_form_with_files_is_415(client: httpx.Client, behind: Pipeline) -> None:
    response = client.post(CHAT, files={"file": b"x"})

    assert response.status_code == 415
    assert_openai_error(response)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(value=JSON, path=st.sampled_from([CHAT, COMPLETIONS]))
def test_no_json_value_makes_a_500(client: httpx.Client, value: Any, path: str) -> None:
    response = client.post(path, content=json.dumps(value).encode())

    assert response.status_code == 400
    assert_openai_error(response)


def assert_openai_error(response: httpx.Response) -> None:
    """The whole shape of an error, and the id that names the request."""
    assert response.headers["content-type"] == "application/json"
    error = response.json()["error"]
    assert {"message", "type", "param", "code"} <= error.keys()
    assert error["message"]
    assert error["type"] == "invalid_request_error"
    assert len(response.headers["x-request-id"]) == 36
