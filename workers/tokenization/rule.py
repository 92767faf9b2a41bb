"""What is published of a model: enough to count its prompts on another machine, nothing of its weights."""

import hashlib
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import msgpack

ContentFormat = Literal["string", "openai"]

KEY = "sl:tokenizer:"
"""Redis: ``sl:tokenizer:<digest>`` -> :meth:`Tokenization.pack`."""


class NotThatRule(ValueError):
    """The bytes are not what their digest names."""


@dataclass(frozen=True, slots=True)
class Tokenization:
    """How one model's prompts become tokens.

    Attributes:
        tokenizer: a ``tokenizer.json``; b"" for the simulated model, which counts bytes (``domain.simulation.prompt``).
        template: the chat template (Jinja) of chats without tools; "" where there are no chats.
        tool_template: the same of chats with tools.
        names: what the template finds beside the messages, such as ``bos_token``.
        content_format: whether the template gets a message's content as one text or as a list of parts.
        spare_tokens: what is added to each chat, because the engine was seen to make so many more of one.
    """

    tokenizer: bytes = field(default=b"", repr=False)
    template: str = field(default="", repr=False)
    tool_template: str = field(default="", repr=False)
    names: dict[str, str] = field(default_factory=dict)
    content_format: ContentFormat = "string"
    spare_tokens: int = 0

    def pack(self) -> tuple[str, bytes]:
        """Its digest (32 hexadecimal digits) and its bytes, compressed; takes tenths of a second."""
        plain = msgpack.packb(asdict(self))
        return _digest(plain), zlib.compress(plain)


def unpack(digest: str, packed: bytes) -> Tokenization:
    """Undo :meth:`Tokenization.pack`.

    Raises:
        NotThatRule: the bytes are damaged, or others than those of ``digest``.
    """
    try:
        plain = zlib.decompress(packed)
        fields: dict[str, Any] = msgpack.unpackb(plain)
    except (zlib.error, ValueError) as error:
        raise NotThatRule(str(error)) from error
    if _digest(plain) != digest:
        raise NotThatRule("the digest differs")
    return Tokenization(**fields)


def _digest(plain: bytes) -> str:
    return hashlib.sha256(plain).hexdigest()[:32]
