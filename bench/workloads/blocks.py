"""Every block that a whole Mooncake trace asks for, in order: what a cache of blocks would see.

``mooncake_<name>_blocks.txt.xz`` has one line a request: its time in ms, and its blocks as runs ``first+more``, so that
``7+2`` is 7, 8, 9. ``python -m bench.workloads.blocks FOLDER_OF_THE_TRACES`` makes the files.
"""

import lzma
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from bench.workloads import FOLDER
from bench.workloads.mooncake import parse

NAMES = ("conversation", "synthetic")


class Ask(NamedTuple):
    """A key that is asked for.

    Attributes:
        at_s: seconds from the start of the trace.
        key: eight bytes that look random, as keys of answers do.
    """

    at_s: float
    key: bytes


def load(name: str) -> list[Ask]:
    """The whole trace."""
    keys: dict[int, bytes] = {}
    asks = []
    for line in lzma.decompress(_path(name).read_bytes()).decode().splitlines():
        at_ms, *runs = line.split()
        asks += [Ask(int(at_ms) / 1000, keys.setdefault(block, key_of(block))) for block in _blocks(runs)]
    return asks


def key_of(number: int) -> bytes:
    """The key with this number."""
    return blake2b(number.to_bytes(8, "little"), digest_size=8).digest()


def write(source: Path, name: str) -> None:
    """Make the file of one trace."""
    requests = [parse(line) for line in (source / f"mooncake_{name}_trace.jsonl").read_text().splitlines()]
    lines = [" ".join((str(request.timestamp), *_runs(request.hash_ids))) for request in requests]
    _path(name).write_bytes(lzma.compress("\n".join(lines).encode(), preset=9))


def _runs(blocks: Sequence[int]) -> Iterator[str]:
    first = 0
    for place in range(1, len(blocks) + 1):
        if place == len(blocks) or blocks[place] != blocks[place - 1] + 1:
            yield f"{blocks[first]}+{place - 1 - first}"
            first = place


def _blocks(runs: Sequence[str]) -> Iterator[int]:
    for run in runs:
        first, more = map(int, run.split("+"))
        yield from range(first, first + more + 1)


def _path(name: str) -> Path:
    return FOLDER / f"mooncake_{name}_blocks.txt.xz"


if __name__ == "__main__":
    for trace in NAMES:
        write(Path(sys.argv[1]), trace)
