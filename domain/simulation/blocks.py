"""The paged KV cache of a modelled engine, with a prefix cache over its blocks."""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b


def prefix_hashes(prompt: bytes, salt: str, bytes_per_block: int) -> tuple[bytes, ...]:
    """Chained hash of every full block of ``prompt``; equal only if the salt and all that stands before are equal."""
    hashes = []
    parent = salt.encode()
    for end in range(bytes_per_block, len(prompt) + 1, bytes_per_block):
        parent = blake2b(prompt[end - bytes_per_block : end], digest_size=16, key=parent[:64]).digest()
        hashes.append(parent)
    return tuple(hashes)


class BlockPool:
    """Blocks of ``block_size`` tokens, counted by reference.

    A released block whose content is known stays in the prefix cache until it is the least recently used one and
    somebody needs the space. Blocks are named by their number.
    """

    def __init__(self, blocks: int, block_size: int) -> None:
        self.blocks = blocks
        self.block_size = block_size
        self._references = [0] * blocks
        self._content: list[bytes | None] = [None] * blocks
        self._cached: dict[bytes, int] = {}
        self._blank = list(range(blocks - 1, -1, -1))
        self._idle: OrderedDict[int, None] = OrderedDict()

    @property
    def free(self) -> int:
        """Blocks that nobody holds; what they cache can be evicted."""
        return len(self._blank) + len(self._idle)

    @property
    def cached(self) -> int:
        """Blocks whose content can be found by its hash."""
        return len(self._cached)

    def blocks_for(self, tokens: int) -> int:
        """How many blocks ``tokens`` tokens fill."""
        return -(-tokens // self.block_size)

    def share(self, hashes: Sequence[bytes]) -> list[int]:
        """Take the longest cached run of blocks at the start of ``hashes``."""
        shared = []
        for content in hashes:
            block = self._cached.get(content)
            if block is None:
                break
            if self._references[block] == 0:
                del self._idle[block]
            self._references[block] += 1
            shared.append(block)
        return shared

    def take(self, count: int) -> list[int] | None:
        """Take ``count`` blocks for new content, evicting the least recently used; None if so many are not free."""
        if count > self.free:
            return None
        return [self._take_one() for _ in range(count)]

    def publish(self, block: int, content: bytes) -> None:
        """Make a held block findable by the hash of its content, computed in the step being planned at the latest."""
        if content not in self._cached and self._content[block] is None:
            self._content[block] = content
            self._cached[content] = block

    def release(self, blocks: Sequence[int]) -> None:
        """Give blocks back. Later ones are evicted first: a prefix is worth more than what follows it."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] < 0:
                raise ValueError(f"block {block} was released more often than it was taken")
            if self._references[block] == 0:
                self._rest(block)

    def _rest(self, block: int) -> None:
        if self._content[block] is None:
            self._blank.append(block)
        else:
            self._idle[block] = None

    def _take_one(self) -> int:
        if self._blank:
            block = self._blank.pop()
        else:
            block, _ = self._idle.popitem(last=False)
            content = self._content[block]
            if content is not None:
                del self._cached[content]
                self._content[block] = None
        self._references[block] = 1
        return block
