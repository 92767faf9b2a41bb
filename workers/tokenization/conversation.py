"""A chat as templates want it, made from OpenAI's messages the way vLLM's server makes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workers.tokenization.rule import ContentFormat

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chat:
    """What of a chat's body becomes prompt.

    Attributes:
        messages: OpenAI's message objects.
        tools: OpenAI's tool objects; None for none.
        options: what the template is told beside them, such as ``add_generation_prompt``.
        special: the tokenizer's own special tokens are added to what the template wrote.
    """

    messages: Sequence[Message]
    tools: Sequence[dict[str, Any]] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    special: bool = False


def for_template(messages: Sequence[Message], content_format: ContentFormat) -> list[dict[str, Any]]:
    """The messages with contents in the format that the template takes, and arguments of calls as objects."""
    return [_message(message, content_format) for message in messages]


def developers_as_system(conversation: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For a template without the role "developer": its messages are the system's, all of them one at the start."""
    if all(message["role"] != "developer" for message in conversation):
        return conversation
    instructions = [message for message in conversation if message["role"] in ("developer", "system")]
    rest = [message for message in conversation if message["role"] not in ("developer", "system")]
    texts = [text for text in (_joined(message["content"]) for message in instructions) if text]
    return [{"role": "system", "content": "\n\n".join(texts)}, *rest]


def tools_for_template(tools: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools with the members that a template may print."""
    return [{**tool, "function": _function(tool["function"])} for tool in tools]


def text_of(message: Message) -> str:
    """A message's content as one text."""
    return "\n".join(_texts(message.get("content")))


def _message(message: Message, content_format: ContentFormat) -> dict[str, Any]:
    role = message["role"]
    texts = _texts(message.get("content"))
    content: Any = "\n".join(filter(None, texts))
    if content_format == "openai" and role != "tool":
        content = [{"type": "text", "text": text} for text in texts]
    made = {"role": role, "content": content}
    if role == "assistant":
        made |= _said(message)
    for name in ("name", "tool_call_id"):
        if isinstance(message.get(name), str):
            made[name] = message[name]
    return made


def _said(message: Message) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if message.get("tool_calls"):
        made["tool_calls"] = [_call(call) for call in message["tool_calls"]]
    reasoning = message.get("reasoning")
    if reasoning is not None:
        made["reasoning"] = made["reasoning_content"] = reasoning
    return made


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    try:
        arguments = json.loads(call["function"]["arguments"] or "{}")
    except (ValueError, RecursionError):
        arguments = {}
    if not isinstance(arguments, dict):
        arguments = {}
    return {
        "id": call["id"],
        "type": "function",
        "function": {"name": call["function"]["name"], "arguments": arguments},
    }


def _function(function: Mapping[str, Any]) -> dict[str, Any]:
    # Absent members are printed as null, but for "strict".
    made = {name: function.get(name) for name in ("name", "description", "parameters", "strict")}
    if made["strict"] is None:
        del made["strict"]
    return made


def _texts(content: object) -> list[str]:
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    return [part.get("text") or part.get("refusal") or "" for part in parts]


def _joined(content: str | list[dict[str, str]]) -> str:
    return content if isinstance(content, str) else "\n".join(part["text"] for part in content)
