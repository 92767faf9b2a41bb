import json
from typing import Any

import pytest

from gateway.errors import ApiError
from gateway.schema import Ask, parse_embeddings


def embeddings(**fields: Any) -> Ask:
    """Check a body of one input and ``fields``."""
    return parse_embeddings(json.dumps({"model": "m", "input": "hi", **fields}).encode())


def refused(**fields: Any) -> ApiError:
    with pytest.raises(ApiError) as caught:
        embeddings(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("given", "prompt_bytes"),
    [
        ("héllo", 6), (["a", "bc"], 3), ([1, 2, 3], 12), ([[1, 2], [3]], 12),
        (["a"] * 2048, 2048), ([1] * 3000, 12_000), (" ", 1),
    ],
)  # fmt: skip
def test_every_form_of_input_is_counted_and_costs_no_output(given: Any, prompt_bytes: int) -> None:
    ask = embeddings(input=given)

    assert (ask.endpoint, ask.stream, ask.max_tokens, ask.choices) == ("embeddings", False, 0, 1)
    assert ask.prompt_bytes == prompt_bytes


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"input": ""}, "empty_string"), ({"input": []}, "empty_array"), ({"input": None}, "invalid_type"),
        ({"input": 5}, "invalid_type"), ({"input": ["a", ""]}, "empty_string"), ({"input": ["a", 1]}, "invalid_value"),
        ({"input": [[1], "a"]}, "invalid_value"), ({"input": [[1], []]}, "empty_array"),
        ({"input": [[1, "a"]]}, "invalid_type"), ({"input": [[[1]]]}, "invalid_type"),
        ({"input": [1.5]}, "invalid_type"), ({"input": [-1]}, "integer_below_min_value"),
        ({"input": [True]}, "invalid_type"),
        ({"input": {"text": "a"}}, "invalid_type"), ({"input": ["a"] * 2049}, "invalid_length"),
        ({"input": [[1]] * 2049}, "invalid_length"), ({"dimensions": 0}, "integer_below_min_value"),
        ({"dimensions": -3}, "integer_below_min_value"), ({"dimensions": "64"}, "invalid_type"),
        ({"dimensions": 1.5}, "invalid_type"), ({"encoding_format": "hex"}, "invalid_value"),
        ({"encoding_format": 5}, "invalid_type"), ({"service_tier": "gold"}, "invalid_value"),
        ({"user": 5}, "invalid_type"), ({"model": ""}, "empty_string"), ({"metadata": {"a": 1}}, "invalid_type"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_its_field(fields: dict[str, Any], code: str) -> None:
    error = refused(**fields)

    assert error.param is not None
    assert error.param.split("[")[0].split(".")[0] in fields
    assert error.code == code


@pytest.mark.parametrize(
    "fields",
    [
        {"dimensions": 1}, {"encoding_format": "base64"}, {"encoding_format": "float"}, {"encoding_format": None},
        {"user": "u"}, {"metadata": {"a": "b"}}, {"dimensions": None}, {"timeout": 3.5},
    ],
)  # fmt: skip
def test_every_field_that_is_honoured_is_accepted(fields: dict[str, Any]) -> None:
    assert embeddings(**fields).endpoint == "embeddings"


def test_the_tier_and_the_time_that_the_client_waits_are_read() -> None:
    ask = embeddings(service_tier="scale", timeout=2)

    assert (ask.service_tier, ask.timeout_s) == ("default", 2)


@pytest.mark.parametrize("name", ["messages", "prompt", "stream", "temperature", "truncate_prompt_tokens", "priority"])
def test_fields_of_other_endpoints_are_unknown(name: str) -> None:
    assert refused(**{name: 1}).message == f"Unrecognized request argument supplied: {name}"


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "m", "input": NaN}', b'{"model": "m", "input": [1, NaN]}', b'{"model": "m", "input": [1e999]}',
        b'{"model": "m", "input": "a", "dimensions": Infinity}', b'{"model": "m", "input": "\\ud800"}', b"[]", b"",
        b'{"model": "m", "input": "a", "input": "b"}', b'{"input": "a"}', b'{"model": "m"}',
        b'{"model": "m", "input": ' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    ],
    ids=lambda body: body[:40].decode(),
)  # fmt: skip
def test_a_hostile_body_is_refused(body: bytes) -> None:
    with pytest.raises(ApiError) as caught:
        parse_embeddings(body)
    assert caught.value.status == 400
