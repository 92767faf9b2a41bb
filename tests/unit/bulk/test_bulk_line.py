"""Lines of a bulk job's file."""

import json
from typing import Any

import pytest

from domain.bulk.line import MAX_ID_LENGTH, LineError, read_line

CHAT = "/v1/chat/completions"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


def line(**changes: Any) -> bytes:
    whole = {"custom_id": "a", "method": "POST", "url": CHAT, "body": BODY} | changes
    return json.dumps({name: value for name, value in whole.items() if value != "left out"}).encode()


def test_a_line_is_read_and_its_body_kept_as_it_is() -> None:
    spaced = b'{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{ "model" : "m", "x":1.0 }}'
    found = read_line(spaced, CHAT)
    assert (found.custom_id, found.model, found.body) == ("a", "m", b'{ "model" : "m", "x":1.0 }')


def test_fields_that_are_not_ours_are_let_pass() -> None:
    assert read_line(line(note="of the client's own"), CHAT).custom_id == "a"


@pytest.mark.parametrize(
    ("text", "code", "param"),
    [
        (b"", "invalid_json_line", None),
        (b"[]", "invalid_json_line", None),
        (b"{", "invalid_json_line", None),
        (b'{"custom_id":"\xff"}', "invalid_json_line", None),
        (b"null", "invalid_json_line", None),
        (line(custom_id="left out"), "missing_required_parameter", "custom_id"),
        (line(custom_id=""), "missing_required_parameter", "custom_id"),
        (line(custom_id=7), "missing_required_parameter", "custom_id"),
        (line(custom_id="x" * (MAX_ID_LENGTH + 1)), "invalid_custom_id", "custom_id"),
        (line(method="GET"), "invalid_method", "method"),
        (line(method="left out"), "invalid_method", "method"),
        (line(url="/v1/embeddings"), "invalid_url", "url"),
        (line(url="http://elsewhere/v1/chat/completions"), "invalid_url", "url"),
        (line(body="left out"), "invalid_body", "body"),
        (line(body=[]), "invalid_body", "body"),
        (line(body={"messages": []}), "missing_required_parameter", "body.model"),
        (line(body=BODY | {"model": ["m"]}), "missing_required_parameter", "body.model"),
        (line(body=BODY | {"stream": True}), "invalid_body", "body.stream"),
        (line(body=BODY | {"timeout": 0.001}), "invalid_body", "body.timeout"),
    ],
)
def test_a_line_of_which_no_request_can_be_made_says_what_is_wrong(text: bytes, code: str, param: str | None) -> None:
    with pytest.raises(LineError) as error:
        read_line(text, CHAT)
    assert (error.value.code, error.value.param) == (code, param)
    assert error.value.message


def test_a_stream_that_is_switched_off_is_none() -> None:
    assert read_line(line(body=BODY | {"stream": False, "timeout": None}), CHAT).model == "m"
