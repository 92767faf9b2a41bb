"""One version of a stored prompt, as requests use it and as the store keeps it."""

from typing import Any

import msgspec

from gateway.schema.messages import Message
from tenants.prompts import FoundVersion


class PromptText(msgspec.Struct, frozen=True, array_like=True):
    """What a version says.

    Attributes:
        tenant_id: whose it is.
        number: of the version.
        messages: OpenAI's, with variables in their texts; JSON, never decoded before it is used.
        variables: names that the texts use, in order.
        made_at: seconds of the epoch at which the prompt was made; ``version_made_at`` this version.
    """

    public_id: str
    tenant_id: int
    name: str
    number: int
    messages: msgspec.Raw
    variables: list[str]
    made_at: int
    version_made_at: int

    def pack(self) -> bytes:
        """Put it into bytes."""
        return _ENCODER.encode(self)

    def decoded(self) -> list[Message]:
        """The messages."""
        return _MESSAGES.decode(self.messages)


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(PromptText)
_MESSAGES = msgspec.json.Decoder(list[Message])


def unpack(packed: bytes) -> PromptText | None:
    """Read what :meth:`PromptText.pack` made; None for what another release made."""
    try:
        return _DECODER.decode(packed)
    except msgspec.DecodeError:
        return None


def text_of(found: FoundVersion) -> PromptText:
    """The same from the database's row."""
    messages: list[dict[str, Any]] = found.messages
    return PromptText(
        public_id=found.public_id,
        tenant_id=found.tenant_id,
        name=found.name,
        number=found.number,
        messages=msgspec.Raw(_ENCODER.encode(messages)),
        variables=list(found.variables),
        made_at=int(found.made_at.timestamp()),
        version_made_at=int(found.version_made_at.timestamp()),
    )
