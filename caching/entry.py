"""One kept answer, as the first level, the store and the disk hold it."""

import struct
import zlib
from dataclasses import dataclass

from domain.usage import Usage

_HEAD = struct.Struct("<BqqIIIH")
_FORM = 1
_FASTEST = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """An answer that completed with 200.

    Attributes:
        body: the whole answer as one JSON object, compressed by :func:`compress`; its ``id`` is the first request's.
        version: of the model that really answered.
        tenant_id: whose request made it. Erased with that tenant, also where others may read it.
        stored_at_ms: when it was computed.
        usage: tokens of the run that made it.
    """

    body: bytes
    version: str
    tenant_id: int
    stored_at_ms: int
    usage: Usage

    @property
    def size(self) -> int:
        """Bytes that it takes, roughly."""
        return len(self.body) + len(self.version) + _HEAD.size

    def text(self) -> bytes:
        """The answer, a JSON object."""
        return zlib.decompress(self.body)

    def pack(self) -> bytes:
        """Put it into bytes."""
        version = self.version.encode()
        used = (self.usage.prompt_tokens, self.usage.cached_tokens, self.usage.completion_tokens)
        return _HEAD.pack(_FORM, self.tenant_id, self.stored_at_ms, *used, len(version)) + version + self.body


def compress(answer: bytes) -> bytes:
    """Make an answer smaller; see :meth:`Entry.text`."""
    return zlib.compress(answer, _FASTEST)


def unpack(packed: bytes) -> Entry | None:
    """Read what :meth:`Entry.pack` made; None for what another release, or nobody, made."""
    try:
        form, tenant_id, stored_at_ms, prompt, cached, completion, length = _HEAD.unpack_from(packed)
    except struct.error:
        return None
    if form != _FORM:
        return None
    body_at = _HEAD.size + length
    version = packed[_HEAD.size : body_at].decode()
    return Entry(packed[body_at:], version, tenant_id, stored_at_ms, Usage(prompt, cached, completion))
