"""How much of the prompts of late was found in the KV cache."""

from collections import deque

SPAN_MS = 300_000
SLOT_MS = 10_000


class PrefixHits:
    """Counts prompt tokens and those of them that were cached, over the last five minutes."""

    def __init__(self) -> None:
        self._slots: deque[list[int]] = deque()  # [slot, prompt tokens, cached tokens]

    def add(self, now_ms: int, prompt_tokens: int, cached_tokens: int) -> None:
        """Count one request."""
        slot = now_ms // SLOT_MS
        if not self._slots or self._slots[-1][0] != slot:
            self._slots.append([slot, 0, 0])
        self._slots[-1][1] += prompt_tokens
        self._slots[-1][2] += cached_tokens

    def rate(self, now_ms: int) -> float:
        """Cached share of the prompt tokens, 0 to 1; 0 when there were none."""
        while self._slots and self._slots[0][0] < (now_ms - SPAN_MS) // SLOT_MS:
            self._slots.popleft()
        prompt = sum(slot[1] for slot in self._slots)
        return sum(slot[2] for slot in self._slots) / prompt if prompt else 0.0
