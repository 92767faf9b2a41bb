import json
from typing import Any

import pytest

from workers.engines.port import Endpoint, Job, RequestRejected
from workers.engines.vllm_request import answer_limit, clean_body, count_seqs, take_echo


def job(body: Any, *, endpoint: Endpoint = "chat", stream: bool = False, cache_salt: str = "") -> Job:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Job("an-id", endpoint, data, stream, priority=7, cache_salt=cache_salt)


@pytest.mark.parametrize(
    "field",
    [
        "priority",
        "request_id",
        "cache_salt",
        "session_id",
        "kv_transfer_params",
        "vllm_xargs",
        "chat_template",
        "model",
    ],
)
def test_a_client_cannot_set_what_is_ours(field: str) -> None:
    assert clean_body(job({field: "theirs"})).get(field) != "theirs"


def test_our_own_fields_are_set() -> None:
    body = clean_body(job({}, cache_salt="a" * 32))

    assert (body["priority"], body["request_id"], body["cache_salt"]) == (7, "an-id", "a" * 32)
    assert "cache_salt" not in clean_body(job({}))


def test_unknown_fields_are_dropped_and_known_ones_kept() -> None:
    body = clean_body(job({"metadata": {}, "service_tier": "flex", "tools": [1], "seed": 3}))

    assert body.keys() & {"metadata", "service_tier", "tools", "seed"} == {"tools", "seed"}


@pytest.mark.parametrize(
    ("options", "wanted"), [(None, False), ({}, False), ({"include_usage": True}, True), (5, False)]
)
def test_usage_is_asked_of_the_engine_only_if_the_client_does(options: Any, wanted: bool) -> None:
    assert clean_body(job({"stream_options": options}, stream=True))["stream_options"] == {"include_usage": wanted}


@pytest.mark.parametrize("body", [b"{", b"[1]", b'"text"', b""])
def test_what_is_no_json_object_is_rejected(body: bytes) -> None:
    with pytest.raises(RequestRejected) as refusal:
        clean_body(job(body))

    assert refusal.value.status == 400
    assert refusal.value.error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "seqs"),
    [
        ({}, 1),
        ({"n": 3}, 3),
        ({"n": None}, 1),
        ({"n": -2}, 1),
        ({"prompt": "text", "n": 2}, 2),
        ({"prompt": [1, 2, 3]}, 1),
        ({"prompt": ["a", "b"], "n": 2}, 4),
        ({"prompt": [[1], [2], [3]]}, 3),
        ({"prompt": []}, 1),
    ],
)
def test_choices_times_prompts_are_counted(body: dict[str, Any], seqs: int) -> None:
    assert count_seqs(body) == seqs


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        ({}, None),
        ({"max_tokens": 5}, 5),
        ({"max_tokens": 5, "max_completion_tokens": 6}, 6),
        ({"max_tokens": "x"}, None),
    ],
)
def test_the_newer_limit_wins(body: dict[str, Any], limit: int | None) -> None:
    assert answer_limit(body) == limit


@pytest.mark.parametrize(
    ("fields", "said", "left"),
    [
        ({"prompt": "The river"}, "The river flows", "The river flows"),
        ({"prompt": "The river", "echo": True}, "The river flows", " flows"),
        ({"prompt": "The river", "echo": True}, "", ""),
    ],
)
def test_an_echo_that_was_delivered_is_not_asked_for_again(fields: dict[str, Any], said: str, left: str) -> None:
    body = dict(fields)
    answer = take_echo(Job("id", "completions", b"{}", stream=True, delivered_text=said), body)

    assert answer == left
    assert body.get("echo", False) == (fields.get("echo", False) and not said)
