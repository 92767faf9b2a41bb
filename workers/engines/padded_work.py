"""A job on the engine that pads: its inputs are rows, which become embeddings in any order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from domain.padding import Row
from tracing.clock import now_us
from workers.engines.port import Times

Vectors = NDArray[np.float32]


@dataclass(eq=False, slots=True)
class Work:
    """One job: its rows, and the embeddings that they have become. Used on the engine's event loop only."""

    times: Times = field(default_factory=Times)
    rows: "list[Row[Part]]" = field(default_factory=list)
    _vectors: list[Vectors | None] = field(default_factory=list)
    _missing: int = 0
    _done: "asyncio.Future[None] | None" = None

    def begin(self, rows: "list[Row[Part]]") -> None:
        """Its rows wait from now on."""
        self.rows, self._missing = rows, len(rows)
        self._vectors = [None] * len(rows)
        self._done = asyncio.get_running_loop().create_future()
        self.times.queued_us = now_us()

    def scheduled(self) -> None:
        """One of its rows is in the pass that begins now."""
        self.times.scheduled_us = self.times.scheduled_us or now_us()

    def accept(self, index: int, vector: Vectors) -> None:
        """Keep the embedding of one row, shape (size,)."""
        self._vectors[index] = vector
        self._missing -= 1
        self.times.steps += 1
        if self._done and not self._missing and not self._done.done():
            self.times.first_us = self.times.last_us = now_us()
            self._done.set_result(None)

    def fail(self, error: Exception) -> None:
        """End it without an answer; nothing while its rows do not wait yet."""
        if self._done and not self._done.done():
            self._done.set_exception(error)

    async def embeddings(self) -> Vectors:
        """Wait for all embeddings; shape (rows, size).

        Raises:
            Exception: what it failed with.
        """
        assert self._done
        await self._done
        return np.stack([vector for vector in self._vectors if vector is not None])


@dataclass(frozen=True, slots=True)
class Part:
    """What a row stands for: one input of a job, as token ids."""

    work: Work
    index: int
    tokens: Sequence[int]
