"""vLLM's whole answers in OpenAI's shape."""

from typing import Any

import orjson

_NULLS_OF_CHOICE = ("logprobs", "finish_reason")
_NULLS_OF_MESSAGE = ("content", "refusal")


def whole_answer(answer: Any) -> bytes:
    """A response object of vLLM (a pydantic model) as JSON, in UTF-8.

    vLLM writes null for all that is not set, where OpenAI's schema has these fields either filled or not at all. The
    few that may be null must be there.
    """
    found: dict[str, Any] = answer.model_dump(mode="json", exclude_none=True)
    for choice in found["choices"]:
        _fill(choice, _NULLS_OF_CHOICE)
        if "message" in choice:
            _fill(choice["message"], _NULLS_OF_MESSAGE)
    return orjson.dumps(found)


def _fill(fields: dict[str, Any], names: tuple[str, ...]) -> None:
    for name in names:
        fields.setdefault(name, None)
