import json
from typing import Any

import pytest
from bodies import refused_bytes
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ApiError
from gateway.schema import parse_chat, parse_completions

START = b'{"model":"m","messages":[{"role":"user","content":"hi"}]'


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        (b"", "empty"),
        (b" ", "JSON"),
        (START, "truncated"),
        (b"\xef\xbb\xbf" + START + b"}", "byte order mark"),
        (START + b"} x", "trailing"),
        (START + b',"user":"\xff"}', "UTF-8"),
        (START + b',"user":"\\ud800"}', "surrogate"),
        (START + b',"temperature":NaN}', "NaN"),
        (START + b',"temperature":-Infinity}', "NaN"),
        (START + b',"logit_bias":{"1":NaN}}', "NaN"),
        (START + b",}", "JSON"),
        (START.decode().encode("utf-16"), "JSON"),
    ],
)
def test_what_is_not_json_is_told_with_a_hint(body: bytes, hint: str) -> None:
    error = refused_bytes(body)

    assert error.code == "invalid_json"
    assert hint in error.message


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"x"', b"true"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    assert refused_bytes(body).code == "invalid_type"


@pytest.mark.parametrize("number", [b"1e999", b"-1e999"])
def test_a_number_beyond_a_double_is_refused(number: bytes) -> None:
    assert refused_bytes(START + b',"temperature":' + number + b"}").param == "temperature"


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (START + b',"n":1,"n":2}', "n"),
        (START + b',"n" : 1,\n"n"\t: 1}', "n"),
        (START + b',"n":1,"\\u006e":2}', "n"),
        (b'{"model":"m","messages":[{"role":"user","role":"user","content":"hi"}]}', "role"),
        (START + b',"metadata":{"a":"1","a":"2"}}', "a"),
    ],
)
def test_a_name_that_stands_twice_in_one_object_is_refused(body: bytes, name: str) -> None:
    error = refused_bytes(body)

    assert (error.param, error.code) == (name, "duplicate_parameter")


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 10_000,
        b'{"a":' * 10_000,
        START + b',"chat_template_kwargs":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_001,
        START + b',"chat_template_kwargs":{"a":' + b"[" * 10_000 + b"]" * 10_000 + b"}}",
        START + b',"chat_template_kwargs":' + b'{"a":' * 65 + b"1" + b"}" * 66,
        START + b',"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":'
        + b'{"a":' * 100 + b"1" + b"}" * 103,
        START + b',"tools":[{"type":"function","function":{"name":"n","parameters":'
        + b'{"a":' * 100 + b"1" + b"}" * 102 + b"]}",
    ],
)  # fmt: skip
def test_deep_nesting_is_refused(body: bytes) -> None:
    assert refused_bytes(body).status == 400


def test_an_integer_of_many_digits_is_refused() -> None:
    assert refused_bytes(START + b',"chat_template_kwargs":{"a":' + b"1" * 5000 + b"}}").status == 400


def test_a_long_unknown_name_is_cut_in_the_message() -> None:
    assert len(refused_bytes(START + b',"' + b"x" * 10_000 + b'":1}').message) < 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    ["n", "stop", "tools", "tool_choice", "response_format", "logit_bias", "metadata", "stream", "max_tokens",
     "temperature", "structured_outputs", "chat_template_kwargs", "messages", "model", "prompt", "documents"]
)  # fmt: skip


@given(JSON)
def test_any_json_value_is_read_or_refused_with_400(value: Any) -> None:
    _only_400(json.dumps(value).encode())


@given(st.dictionaries(FIELDS, JSON, max_size=4))
def test_any_value_of_any_field_is_read_or_refused_with_400(fields: dict[str, Any]) -> None:
    _only_400(json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], **fields}).encode())
    _only_400(json.dumps({"model": "m", "prompt": "x", **fields}).encode())


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused_with_400(body: bytes) -> None:
    _only_400(body)


@given(st.binary(max_size=6), st.integers(0, len(START)))
def test_a_damaged_body_is_read_or_refused_with_400(damage: bytes, at: int) -> None:
    _only_400(START[:at] + damage + START[at:] + b"}")


def _only_400(body: bytes) -> None:
    for parse in (parse_chat, parse_completions):
        try:
            parse(body)
        except ApiError as error:
            status, shown = error.status, json.loads(error.body())
        else:
            continue
        assert status == 400
        assert shown["error"]["message"]
