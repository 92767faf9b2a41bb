"""What was counted before: system prompts, documents and the earlier turns of a chat come again and again."""

from hashlib import blake2b

KEY_BYTES = 16


class Memory:
    """Digest of a text -> its tokens. No text is kept, and no tenant meets what another one asked.

    Holds the latest ``size`` to ``2 * size`` entries that were used. Safe from several threads without a lock: each
    step is one operation on a dict.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._young: dict[bytes, int] = {}
        self._old: dict[bytes, int] = {}

    @staticmethod
    def key(text: str, salt: bytes) -> bytes:
        """The name of a text for one tenant; ``salt`` has 64 bytes at most."""
        return blake2b(text.encode(), digest_size=KEY_BYTES, key=salt).digest()

    def find(self, key: bytes) -> int | None:
        """The tokens of a text, or None."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.keep(key, found)
        return found

    def keep(self, key: bytes, tokens: int) -> None:
        """Note the tokens of a text."""
        if len(self._young) >= self._size:
            self._old, self._young = self._young, {}
        self._young[key] = tokens
