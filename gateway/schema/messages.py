"""The messages of a chat."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from msgspec import Meta

from gateway.schema.fields import Shape, ToolName


class CacheBreakpoint(Shape):
    """A hint about prompt caching; the engine caches prefixes by itself."""

    mode: str
    ttl: str | None = None


class TextPart(Shape, tag_field="type", tag="text"):
    """A piece of text."""

    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class PlainPart(Shape):
    """The same where no other kind of part is possible: a lone tagged struct would not insist on its tag."""

    type: Literal["text"]
    text: str
    prompt_cache_breakpoint: CacheBreakpoint | None = None


class RefusalPart(Shape, tag_field="type", tag="refusal"):
    """An earlier refusal of the model."""

    refusal: str


TextParts = Annotated[list[PlainPart], Meta(min_length=1)]


class System(Shape, tag_field="role", tag="system"):
    """Instructions."""

    content: str | TextParts
    name: str | None = None


class Developer(Shape, tag_field="role", tag="developer"):
    """Instructions, by their newer name."""

    content: str | TextParts
    name: str | None = None


class User(Shape, tag_field="role", tag="user"):
    """What the user says."""

    content: str | TextParts
    name: str | None = None


class CalledFunction(Shape):
    """A function that the model called, arguments as JSON text."""

    name: str
    arguments: str


class ToolCall(Shape):
    """A call that the model made earlier."""

    id: str
    type: Literal["function"]
    function: CalledFunction
    index: int | None = None


class AudioReference(Shape):
    """Names an earlier spoken answer; text models have none."""

    id: str


class Assistant(Shape, tag_field="role", tag="assistant"):
    """What the model said earlier. The fields are those of an answer, so that it can be sent back as it came."""

    content: str | Annotated[list[TextPart | RefusalPart], Meta(min_length=1)] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    function_call: CalledFunction | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    annotations: list[dict[str, Any]] | None = None
    audio: AudioReference | None = None


class Tool(Shape, tag_field="role", tag="tool"):
    """What a called tool answered."""

    content: str | TextParts
    tool_call_id: str
    name: str | None = None


class Function(Shape, tag_field="role", tag="function"):
    """What a called function answered, in the older form."""

    content: str | None
    name: ToolName


Message = System | Developer | User | Assistant | Tool | Function


def text_bytes(message: Message) -> int:
    """UTF-8 bytes of a message that become prompt."""
    return sum(map(len, message_texts(message)))


def message_texts(message: Message) -> Iterator[bytes]:
    """The parts of a message that become prompt, as UTF-8."""
    content = message.content
    if isinstance(content, str):
        yield content.encode()
    else:
        yield from (_text(part).encode() for part in content or ())
    if isinstance(message, Assistant):
        yield from (call.function.arguments.encode() for call in message.tool_calls or ())


def _text(part: TextPart | PlainPart | RefusalPart) -> str:
    return part.refusal if isinstance(part, RefusalPart) else part.text
