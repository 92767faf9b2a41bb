"""Chat requests that name a stored prompt: its messages, with the variables filled in, come before the request's own.

It happens before anything else reads the body. So counting, affinity, kept answers and engines see plain messages.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from domain.template import fill, filled_length
from gateway.errors import Refusal, refuse
from gateway.prompts.version import PromptText
from gateway.schema.fields import invalid
from gateway.schema.messages import Message
from gateway.schema.prompt_use import PromptUse
from gateway.schema.reading import read_body

_NAMES = 5

_Json = dict[str, Any]


class _Body(msgspec.Struct):
    """The two fields; all others are left alone."""

    prompt: PromptUse
    messages: list[Message] = []


_PEEK = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BODY = msgspec.json.Decoder(_Body)
_WRITTEN = msgspec.json.Decoder(list[msgspec.Raw])


def named_prompt(body: bytes) -> PromptUse | None:
    """The stored prompt that the body of a chat names; None for most, which name none.

    Raises:
        ApiError: 400, it names one in a wrong way.
    """
    if b'"prompt"' not in body and b"\\u" not in body:
        return None
    try:
        names_one = "prompt" in _PEEK.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None  # whoever reads the whole of it says what is wrong
    return read_body(_BODY, body).prompt if names_one else None


def expanded(body: bytes, use: PromptUse, prompt: PromptText, max_bytes: int) -> bytes:
    """The body with the prompt's messages in front of its own, and without the field ``prompt``.

    Raises:
        ApiError: 400, a variable is missing or unknown; 413, it would have more than ``max_bytes``.
    """
    values = use.variables or {}
    _check_names(prompt, values)
    fields = _PEEK.decode(body)
    own = _WRITTEN.decode(fields.pop("messages", b"[]"))
    del fields["prompt"]
    stored: list[_Json] = msgspec.json.decode(prompt.messages)
    if len(body) + len(prompt.messages) + _added_bytes(stored, values) > max_bytes:
        message = f"With the stored prompt, the body is larger than {max_bytes} bytes. Send a shorter one."
        raise refuse(Refusal.BODY_TOO_LARGE, message)
    for part in _text_parts(stored):
        part.fill(values)
    return msgspec.json.encode({"messages": [*stored, *own], **fields})


@dataclass(frozen=True, slots=True)
class _TextPart:
    """A place in a message that holds text in which variables count."""

    holder: dict[str, Any]
    name: str

    @property
    def text(self) -> str:
        text: str = self.holder[self.name]
        return text

    def fill(self, values: Mapping[str, str]) -> None:
        self.holder[self.name] = fill(self.text, values)


def _text_parts(messages: list[_Json]) -> Iterator[_TextPart]:
    for message in messages:
        content = message.get("content")
        if isinstance(content, str):
            yield _TextPart(message, "content")
        elif isinstance(content, list):
            yield from (_TextPart(part, "text") for part in content if part.get("type") == "text")


def _added_bytes(messages: list[_Json], values: Mapping[str, str]) -> int:
    """Bytes of JSON that the values add, known before any of them is put in."""
    lengths = {name: len(msgspec.json.encode(value)) for name, value in values.items()}
    return sum(filled_length(part.text, lengths) - len(part.text) for part in _text_parts(messages))


def _check_names(prompt: PromptText, values: Mapping[str, str]) -> None:
    missing = [name for name in prompt.variables if name not in values]
    unknown = [name for name in values if name not in prompt.variables]
    if missing:
        raise invalid("prompt.variables", f"{_listed('Missing', missing)} The stored prompt needs a value for each.")
    if unknown:
        raise invalid("prompt.variables", f"{_listed('Unknown', unknown)} The stored prompt does not use them.")


def _listed(what: str, names: list[str]) -> str:
    shown = ", ".join(f"'{name[:64]}'" for name in names[:_NAMES])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{what} variables: {shown}{more}."
