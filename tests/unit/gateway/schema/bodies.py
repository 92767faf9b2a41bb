"""Bodies to start from."""

import json
from typing import Any

import pytest

from gateway.errors import ApiError
from gateway.schema import Ask, parse_chat, parse_completions

MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object"}}}


def chat(**fields: Any) -> Ask:
    """Check a chat body of one message and ``fields``."""
    return parse_chat(json.dumps({"model": "m", "messages": MESSAGES, **fields}).encode())


def completions(**fields: Any) -> Ask:
    """Check a completions body of one prompt and ``fields``."""
    return parse_completions(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())


def refused_chat(**fields: Any) -> ApiError:
    """The error that a chat body is refused with."""
    with pytest.raises(ApiError) as caught:
        chat(**fields)
    assert caught.value.status == 400
    assert caught.value.type == "invalid_request_error"
    return caught.value


def refused_completions(**fields: Any) -> ApiError:
    """The error that a completions body is refused with."""
    with pytest.raises(ApiError) as caught:
        completions(**fields)
    assert caught.value.status == 400
    return caught.value


def refused_bytes(body: bytes) -> ApiError:
    """The error that raw bytes are refused with, as a chat."""
    with pytest.raises(ApiError) as caught:
        parse_chat(body)
    assert caught.value.status == 400
    return caught.value
