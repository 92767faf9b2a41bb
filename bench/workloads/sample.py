"""Takes the samples in this folder from the whole traces: ``python -m bench.workloads.sample FOLDER_OF_THE_TRACES``.

A run of consecutive requests of Mooncake's hour holds few second turns of a conversation: 500 requests share 10-16 % of
their blocks where the whole hour shares 37 %. So whole conversations are drawn at random, with every request of each.
"""

import csv
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from bench.workloads import FOLDER
from bench.workloads.mooncake import Request, parse

SEED = 1
REQUESTS = 400
MAX_BLOCKS = 120
# Every request of the conversation trace begins with the same block; what follows tells conversations apart.
ROOT_BLOCKS = {"conversation": 2, "synthetic": 1}
LENGTHS = 2_000


def sample_conversations(requests: Sequence[Request], root_blocks: int, wanted: int, seed: int) -> list[int]:
    """Indices of at least ``wanted`` requests: all those of randomly drawn conversations, in order of time.

    A conversation is all requests that begin with the same ``root_blocks`` blocks; one with a prompt of more than
    ``MAX_BLOCKS`` blocks is left out.
    """
    conversations: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for index, request in enumerate(requests):
        conversations[request.hash_ids[:root_blocks]].append(index)
    roots = sorted(conversations)
    random.Random(seed).shuffle(roots)
    drawn: list[int] = []
    for root in roots:
        members = conversations[root]
        if max(len(requests[index].hash_ids) for index in members) <= MAX_BLOCKS and len(drawn) < wanted:
            drawn += members
    return sorted(drawn)


def sample_mooncake(source: Path, name: str) -> None:
    """Write ``mooncake_<name>.jsonl``: lines of the trace, unchanged but for blanks."""
    lines = (source / f"mooncake_{name}_trace.jsonl").read_text().splitlines()
    drawn = sample_conversations([parse(line) for line in lines], ROOT_BLOCKS[name], REQUESTS, SEED)
    text = "".join(lines[index].replace(" ", "") + "\n" for index in drawn)
    (FOLDER / f"mooncake_{name}.jsonl").write_text(text)


def sample_azure(source: Path) -> None:
    """Write the lengths of the first requests of the trace."""
    with (source / "AzureLLMInferenceTrace_conv.csv").open(newline="") as file:
        rows = [(row["ContextTokens"], row["GeneratedTokens"]) for row in csv.DictReader(file)]
    with (FOLDER / "azure_conversation_lengths.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("ContextTokens", "GeneratedTokens"), *rows[:LENGTHS]])


if __name__ == "__main__":
    for trace in ROOT_BLOCKS:
        sample_mooncake(Path(sys.argv[1]), trace)
    sample_azure(Path(sys.argv[1]))
