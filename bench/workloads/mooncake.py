"""Traces of Mooncake (FAST '25): when a request came, how long it was, and which prefix it shared with others."""

import json
from dataclasses import dataclass
from itertools import starmap

from bench.workloads import BYTES_PER_TOKEN, FOLDER, filler

BLOCK_TOKENS = 512


@dataclass(frozen=True, slots=True)
class Request:
    """One line of a trace.

    Attributes:
        timestamp: ms from the start of the trace.
        input_length: tokens of the prompt.
        output_length: tokens of the answer.
        hash_ids: one number for each block of 512 tokens of the prompt; equal numbers mean equal text up to and
            including that block.
    """

    timestamp: int
    input_length: int
    output_length: int
    hash_ids: tuple[int, ...]


def load(name: str) -> list[Request]:
    """The sample ``mooncake_<name>.jsonl``, in order of time."""
    lines = (FOLDER / f"mooncake_{name}.jsonl").read_text().splitlines()
    return [parse(line) for line in lines]


def parse(line: str) -> Request:
    """One line as the trace has it."""
    fields = json.loads(line)
    return Request(fields["timestamp"], fields["input_length"], fields["output_length"], tuple(fields["hash_ids"]))


def prompt(request: Request, salt: str) -> str:
    """Text of the request's length in which equal ``hash_ids`` are equal text; nothing is shared between two salts."""
    whole = "".join(starmap(filler, ((f"{salt}-{number}", BLOCK_TOKENS) for number in request.hash_ids)))
    return whole[: request.input_length * BYTES_PER_TOKEN]


def best_hit_rate(requests: list[Request]) -> float:
    """Share of prompt blocks that a single cache would find that forgets nothing: no fleet of engines can do better."""
    seen: set[int] = set()
    found = total = 0
    for request in requests:
        known = (number in seen for number in request.hash_ids)
        found += next((index for index, is_known in enumerate(known) if not is_known), len(request.hash_ids))
        total += len(request.hash_ids)
        seen.update(request.hash_ids)
    return found / total if total else 0.0
