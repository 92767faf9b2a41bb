"""The first level: stored prompts that this process used lately, within a number of bytes."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from caching.prompt_rows import Head
from domain.prompt_id import PREFIX
from gateway.prompts.version import PromptText

MAX_BYTES = 16 * 2**20
FRESH_S = 1.0
"""For so long what is held is believed. After that the store is asked whether it is still so: a prompt that was changed
or deleted, by whatever process, is used as it was for no longer."""
_OVERHEAD_BYTES = 1_000
_ID = PREFIX.encode()


@dataclass(slots=True)
class Held:
    """A prompt: whose it is, the versions that were asked for, and when (s) somebody began to ask about it last."""

    head: Head
    asked_at_s: float
    texts: dict[int, PromptText] = field(default_factory=dict)
    size_bytes: int = _OVERHEAD_BYTES

    def text(self, number: int | None) -> PromptText | None:
        """A version, the latest for None; None if it is not held."""
        return self.texts.get(self.head.latest if number is None else number)


class FirstLevel:
    """Prompts by their ids; those go first that were not used for longest.

    Attributes:
        bytes: taken now.
        pinned: ids on the whitelist. Theirs do not go, as long as they take at most half of the bytes.
    """

    def __init__(self, clock: Callable[[], float], max_bytes: int = MAX_BYTES) -> None:
        self._clock, self._max_bytes = clock, max_bytes
        self._held: OrderedDict[str, Held] = OrderedDict()
        self.bytes = 0
        self.pinned: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self._held)

    def get(self, public_id: str) -> Held | None:
        """What is held, fresh or not."""
        held = self._held.get(public_id)
        if held is not None:
            self._held.move_to_end(public_id)
        return held

    def is_fresh(self, held: Held) -> bool:
        """Whether it may be used without asking."""
        return self._clock() - held.asked_at_s < FRESH_S

    def put(self, public_id: str, head: Head, text: PromptText | None, asked_at_s: float) -> None:
        """Hold what somebody was told who began to ask at ``asked_at_s``."""
        held = self._held.get(public_id)
        if held is not None and held.asked_at_s > asked_at_s:
            return
        if held is None or held.head != head:
            self.drop(public_id)
            held = self._held[public_id] = Held(head, asked_at_s)
            self.bytes += held.size_bytes
        held.asked_at_s = asked_at_s
        if text is not None and text.number not in held.texts:
            size = len(text.messages) + _OVERHEAD_BYTES
            held.texts[text.number] = text
            held.size_bytes += size
            self.bytes += size
        self._held.move_to_end(public_id)
        self._make_room()

    def drop(self, public_id: str) -> None:
        """Hold it no longer."""
        held = self._held.pop(public_id, None)
        if held is not None:
            self.bytes -= held.size_bytes

    def drop_tenant(self, tenant_id: int) -> None:
        """Hold nothing of a tenant's."""
        for public_id in [name for name, held in self._held.items() if held.head.tenant_id == tenant_id]:
            self.drop(public_id)

    def pin(self, keys: frozenset[bytes]) -> None:
        """Take the whitelist; keys that are no ids of prompts are somebody else's."""
        self.pinned = frozenset(key.decode() for key in keys if key.startswith(_ID))

    def _make_room(self) -> None:
        spared = 0
        while self.bytes > self._max_bytes:
            public_id, held = next(iter(self._held.items()))
            spared += held.size_bytes if public_id in self.pinned else 0
            if public_id in self.pinned and spared <= self._max_bytes // 2:
                self._held.move_to_end(public_id)
            else:
                self.drop(public_id)
