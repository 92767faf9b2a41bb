"""Stored prompts: the bodies that make them, the field that names one, and what is told of them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from domain.template import variables_of
from gateway.schema.chat import check_messages
from gateway.schema.fields import Shape, invalid
from gateway.schema.messages import Message, RefusalPart
from gateway.schema.prompt_use import MAX_VARIABLES
from gateway.schema.reading import read_body

MAX_BYTES = 256 * 1024
MAX_MESSAGES = 256

Name = Annotated[str, Meta(max_length=100)]
Messages = Annotated[list[Message], Meta(min_length=1, max_length=MAX_MESSAGES)]


class NewPrompt(Shape):
    """A prompt to store. ``{{name}}`` in a message's text stands for a variable."""

    messages: Messages
    name: Name | None = None


class NewVersion(Shape):
    """What a stored prompt is to say from now on."""

    messages: Messages


class Prompt(msgspec.Struct):
    """A version of a stored prompt.

    ``variables`` are the names that its texts use. Times are in seconds of the epoch.
    """

    id: str
    object: Literal["prompt"]
    name: str
    version: int
    messages: list[dict[str, Any]]
    variables: list[str]
    created_at: int
    version_created_at: int


class PromptLine(msgspec.Struct):
    """A stored prompt in a list: its latest version without what it says."""

    id: str
    object: Literal["prompt"]
    name: str
    version: int
    variables: list[str]
    created_at: int


class PromptList(msgspec.Struct):
    """Some of your tenant's stored prompts, the latest first; the next page comes ``after`` ``last_id``."""

    object: Literal["list"]
    data: list[PromptLine]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VersionLine(msgspec.Struct):
    """A version in a list."""

    id: str
    object: Literal["prompt.version"]
    version: int
    variables: list[str]
    created_at: int


class VersionList(msgspec.Struct):
    """All versions of a stored prompt, the latest first."""

    object: Literal["list"]
    data: list[VersionLine]


class PromptDeleted(msgspec.Struct):
    """It is gone, with all its versions."""

    id: str
    object: Literal["prompt.deleted"]
    deleted: Literal[True]


@dataclass(frozen=True, slots=True)
class PromptBody:
    """A prompt, or a version, to store.

    Attributes:
        messages: as the client wrote them, checked.
        variables: names that their texts use, in order.
    """

    name: str
    messages: list[dict[str, Any]]
    variables: list[str]


_NEW_PROMPT = msgspec.json.Decoder(NewPrompt)
_NEW_VERSION = msgspec.json.Decoder(NewVersion)
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def parse_new_prompt(body: bytes) -> PromptBody:
    """Read and check a prompt to store.

    Raises:
        ApiError: 400, with the field at fault in ``param``.
    """
    new = read_body(_NEW_PROMPT, body)
    if new.name and "\0" in new.name:
        raise invalid("name", "'name' must not contain the character U+0000.")
    return _checked(new.name or "", new.messages, body)


def parse_new_version(body: bytes) -> PromptBody:
    """Read and check a version to store.

    Raises:
        ApiError: 400, with the field at fault in ``param``.
    """
    return _checked("", read_body(_NEW_VERSION, body).messages, body)


def variables_in(messages: list[Message]) -> list[str]:
    """The variables that messages use, in order."""
    return variables_of(text for message in messages for text in texts_of(message))


def texts_of(message: Message) -> Iterator[str]:
    """The texts of a message in which variables count."""
    if isinstance(message.content, str):
        yield message.content
    else:
        yield from (part.text for part in message.content or () if not isinstance(part, RefusalPart))


def _checked(name: str, messages: list[Message], body: bytes) -> PromptBody:
    check_messages(messages)
    written: list[dict[str, Any]] = msgspec.json.decode(body)["messages"]
    text = msgspec.json.encode(written)
    if len(text) > MAX_BYTES:
        raise invalid("messages", f"The messages take {len(text)} bytes of JSON. A stored prompt may have {MAX_BYTES}.")
    if _NUL.search(text):
        raise invalid("messages", "'messages' must not contain the character U+0000.")
    variables = variables_in(messages)
    if len(variables) > MAX_VARIABLES:
        raise invalid(
            "messages", f"The texts use {len(variables)} variables. A stored prompt may have {MAX_VARIABLES}."
        )
    return PromptBody(name, written, variables)
