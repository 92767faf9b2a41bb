"""The engine for embedding models: padded batches with exact masks, chosen by length, on one thread (W5)."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from time import monotonic
from typing import TypeVar

import numpy as np

from domain.config import Config
from domain.padding import LengthBuckets, PaddingMeter, Row
from domain.trace.launches import Launches
from domain.trace.step import Step
from domain.usage import Usage
from tracing.clock import now_us
from workers.engines.known_embeddings import WrongEmbedding
from workers.engines.padded_answer import embeddings_answer
from workers.engines.padded_loaded import Loaded, load
from workers.engines.padded_request import Asked
from workers.engines.padded_work import Part, Work
from workers.engines.port import EngineDead, EngineInfo, Frame, Job, RequestFailed, Room
from workers.engines.step_log import StepLog
from workers.engines.step_pace import StepPace

logger = logging.getLogger(__name__)

MAX_ROWS = 256
INPUTS_A_PIECE = 32
"""Inputs that are tokenized at one go: a long list lets others in between."""

PROBE_TIMEOUT_S = 120.0
"""A pass takes seconds at most, and a probe waits for the one that runs, never for those that wait."""

T = TypeVar("T")


class PaddedEngine:
    """The engine port for models that embed (see :class:`workers.engines.port.Engine`).

    A job is one sequence, however many inputs it has. Its inputs wait as rows; after each forward pass the next one is
    chosen from all rows that wait then. Forward passes have a thread of their own, and so have texts and answers.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._loaded: Loaded | None = None
        self._dead_reason = "the engine has not been started"
        self._works: set[Work] = set()
        self._orders = count()
        self._buckets: LengthBuckets[Part] = LengthBuckets(1, 1, 1)
        self._work_came = asyncio.Event()
        self._meter = PaddingMeter()
        self._pace, self._log = StepPace(), StepLog()
        self._passes_task: asyncio.Task[None] | None = None
        self._threads: dict[str, ThreadPoolExecutor] = {}

    @property
    def real_tokens(self) -> int:
        """Tokens of all rows since the start."""
        return self._meter.real_tokens

    @property
    def padded_tokens(self) -> int:
        """Tokens that were computed for them, padding included."""
        return self._meter.padded_tokens

    def padding_waste(self) -> float:
        """Share of padding in the latest passes, 0 to 1."""
        return self._meter.recent_waste

    @property
    def info(self) -> EngineInfo:
        """What the engine is, with its counters as they stand.

        Raises:
            EngineDead: it does not run.
        """
        loaded = self._alive()
        details = {
            **loaded.details(),
            "max_num_batched_tokens": self._config.max_num_batched_tokens,
            "real_tokens": self.real_tokens,
            "padded_tokens": self.padded_tokens,
            "padding_waste": round(self._meter.waste, 4),
            "recent_padding_waste": round(self._meter.recent_waste, 4),
        }
        return EngineInfo(
            engine="padded",
            model=self._config.model_name,
            version=loaded.version,
            dtype="float32",
            max_model_len=loaded.max_tokens,
            max_num_seqs=self._config.max_num_seqs,
            details=details,
            endpoints=("embeddings",),
            tokenization=loaded.tokenization,
        )

    async def start(self) -> EngineInfo:
        """Prepare and load the model.

        Raises:
            EngineDead: the model cannot be had or loaded, or the settings do not fit it.
        """
        await self.stop()
        self._threads = {name: ThreadPoolExecutor(1, f"padded-{name}") for name in ("passes", "texts")}
        try:
            loaded = await self._on("passes", lambda: load(self._config))
        except Exception as error:
            await self.stop()
            raise EngineDead(f"the engine could not start: {type(error).__name__}: {error}") from error
        self._loaded, self._dead_reason = loaded, ""
        self._buckets = LengthBuckets(loaded.max_tokens, self._config.max_num_batched_tokens, MAX_ROWS)
        self._work_came, self._meter, self._pace = asyncio.Event(), PaddingMeter(), StepPace()
        self._log = StepLog()
        self._passes_task = asyncio.create_task(self._passes(), name="padded-passes")
        self._passes_task.add_done_callback(self._passes_ended)
        return self.info

    async def probe(self) -> None:
        """Embed known rows of very different lengths in one padded batch and compare.

        Raises:
            EngineDead: a wrong embedding, none in time, or the engine is dead.
        """
        loaded = self._alive()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                await self._on("passes", loaded.prove)
        except TimeoutError:
            raise EngineDead(f"known-answer probe: expected an answer within {PROBE_TIMEOUT_S:g} s") from None
        except EngineDead:
            raise
        except Exception as error:
            kind = "" if isinstance(error, WrongEmbedding) else f"{type(error).__name__}: "
            raise EngineDead(f"known-answer probe: {kind}{error}") from error

    def room(self) -> Room:
        """Jobs that can be taken now; there is no KV cache."""
        limit = self._config.max_num_seqs
        free = 0 if self._dead_reason else max(0, limit - len(self._works))
        real = self.real_tokens
        tokens = {"real_tokens": real, "padded_tokens": self.padded_tokens, "prompt_tokens": real}
        return Room(free, limit, 0, 0, step_ms=self._pace.step_ms, **tokens)

    def take_steps(self) -> list[Step]:
        """Passes, as the port's steps: a row is a sequence, and its tokens are a prompt's."""
        return self._log.take()

    def take_launches(self) -> list[Launches]:
        """See the port: it launches nothing."""
        return []

    async def run(self, job: Job) -> AsyncGenerator[Frame, None]:
        """Run one job, which yields one frame; see the port."""
        loaded, work = self._alive(), Work(job.times)
        self._works.add(work)
        try:
            asked, rows = await self._read(loaded, job)
            self._let_wait(work, rows, job.priority)
            vectors = await work.embeddings()
            tokens = sum(map(len, rows))
            data = await self._on(
                "texts",
                lambda: embeddings_answer(
                    self._config.model_name,
                    vectors,
                    tokens,
                    asked.dimensions,
                    as_base64=asked.as_base64,
                    normalise=loaded.model.normalises,
                ),
            )
            yield Frame(data, Usage(prompt_tokens=tokens))
        finally:
            self._works.discard(work)
            self._buckets.remove(work.rows)

    async def stop(self) -> None:
        """Stop; jobs under way end with EngineDead."""
        self._die("the engine was stopped")
        task, self._passes_task = self._passes_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))
        threads, self._threads = self._threads, {}
        for thread in threads.values():
            await asyncio.to_thread(thread.shutdown)
        self._loaded = None

    async def _read(self, loaded: Loaded, job: Job) -> tuple[Asked, list[list[int]]]:
        """What is asked, and the token ids of each input."""
        reader = loaded.reader
        asked = await self._on("texts", lambda: reader.read(job))
        rows: list[list[int]] = []
        for first in range(0, len(asked.inputs), INPUTS_A_PIECE):
            rows += await self._on("texts", partial(reader.rows, asked, first, INPUTS_A_PIECE))
        return asked, rows

    def _let_wait(self, work: Work, rows: list[list[int]], priority: int) -> None:
        self._alive()
        work.begin(
            [
                Row(next(self._orders), len(tokens), priority, Part(work, index, tokens))
                for index, tokens in enumerate(rows)
            ]
        )
        self._buckets.add(work.rows)
        self._work_came.set()

    async def _passes(self) -> None:
        while True:
            batch = self._buckets.take()
            if batch:
                await self._pass(batch)
            else:
                self._work_came.clear()
                await self._work_came.wait()

    async def _pass(self, batch: list[Row[Part]]) -> None:
        model, rows = self._alive().model, [row.item.tokens for row in batch]
        begun_us = now_us()
        for row in batch:
            row.item.work.scheduled()
        try:
            vectors = await self._on("passes", lambda: model.embed(rows))
        except Exception as error:
            logger.exception("a forward pass failed")
            for row in batch:
                row.item.work.fail(RequestFailed(f"the forward pass failed: {type(error).__name__}: {error}"))
            return
        self._meter.count([row.length for row in batch])
        self._note_step(batch, begun_us)
        self._pace.step(monotonic(), more=len(self._buckets) > 0)
        for row, vector in zip(batch, vectors, strict=True):
            if np.isfinite(vector).all():
                row.item.work.accept(row.item.index, vector)
            else:
                row.item.work.fail(RequestFailed(f"the embedding of input {row.item.index} is not finite"))

    def _note_step(self, batch: list[Row[Part]], begun_us: int) -> None:
        ended_us = now_us()
        step = Step(
            ended_us=ended_us,
            duration_us=max(0, ended_us - begun_us),
            running=len(batch),
            waiting=len(self._buckets),
            prompt_tokens=sum(row.length for row in batch),
        )
        self._log.add(step)

    def _passes_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._die(f"the pass loop failed: {error!r}")

    def _die(self, reason: str) -> None:
        self._dead_reason = self._dead_reason or reason
        for work in self._works:
            work.fail(EngineDead(reason))

    def _alive(self) -> Loaded:
        if self._dead_reason or self._loaded is None:
            raise EngineDead(self._dead_reason)
        return self._loaded

    async def _on(self, name: str, work: Callable[[], T]) -> T:
        """Do ``work`` on a thread of this engine.

        Raises:
            EngineDead: the engine was stopped.
        """
        thread = self._threads.get(name)
        if thread is None:
            raise EngineDead(self._dead_reason)
        return await asyncio.get_running_loop().run_in_executor(thread, work)
