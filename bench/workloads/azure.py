"""Lengths of real conversations: Azure's LLM inference trace of 2023."""

import csv
from typing import NamedTuple

from bench.workloads import FOLDER


class Lengths(NamedTuple):
    """Tokens of one request's prompt and of its answer."""

    prompt: int
    answer: int


def load() -> list[Lengths]:
    """The sample, in the order of the trace."""
    with (FOLDER / "azure_conversation_lengths.csv").open(newline="") as file:
        return [Lengths(int(row["ContextTokens"]), int(row["GeneratedTokens"])) for row in csv.DictReader(file)]
