"""An engine without a model: modelled scheduler and cache, deterministic text, real-time pacing, scripted faults."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from hashlib import blake2b
from math import inf

from domain.config import Config
from domain.simulation.answers import words
from domain.simulation.blocks import BlockPool, prefix_hashes
from domain.simulation.faults import NO_FAULTS
from domain.simulation.profiles import PROFILES, Profile
from domain.simulation.prompt import BYTES_PER_TOKEN
from domain.simulation.scheduler import Scheduler, Sequence, Step
from domain.trace.launches import Launches
from domain.trace.step import Step as MadeStep
from tracing.clock import now_us
from workers.engines.port import EngineDead, EngineInfo, Frame, Job, RequestFailed, RequestRejected, Room
from workers.engines.simulator_answer import Model, word_answer
from workers.engines.simulator_journal import Journal
from workers.engines.simulator_request import Asked, Prompt, read_request, rejected
from workers.engines.simulator_run import Part, Run
from workers.engines.step_log import StepLog
from workers.engines.step_pace import StepPace
from workers.tokenization.rule import Tokenization

BLOCK_SIZE = 16
_BYTES_PER_BLOCK = BYTES_PER_TOKEN * BLOCK_SIZE
_DEFAULT_MAX_MODEL_LEN = 8192
_PROBE_PROMPT = b"a lock lets ships climb hills"
_PROBE_TOKENS = 8


class SimulatorEngine:
    """The engine port on top of ``domain.simulation``; see docs/reference/simulator.md.

    ``tokens_produced`` and ``max_waiting`` count since the last start; ``active_sequences`` is what runs now.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._profile: Profile | None = PROFILES.get(config.sim_profile)
        self._model = Model(config.sim_seed, config.max_model_len or _DEFAULT_MAX_MODEL_LEN)
        self._scheduler: Scheduler[Part] = Scheduler(BlockPool(0, BLOCK_SIZE), config.max_num_seqs, 1)
        self._runs: set[Run] = set()
        self._pace, self._log = StepPace(), StepLog()
        self._counted = (0, 0, 0)
        self._journal = Journal(config.sim_journal)
        self._work = asyncio.Event()
        self._loop_task: asyncio.Task[None] | None = None
        self._dead_reason: str | None = "the engine has not been started"
        self.tokens_produced = 0

    @property
    def active_sequences(self) -> int:
        """Sequences that run now, at most ``max_num_seqs``."""
        return len(self._scheduler.running)

    @property
    def max_waiting(self) -> int:
        """The most sequences that have waited inside the engine at once."""
        return self._scheduler.max_waiting

    @property
    def info(self) -> EngineInfo:
        """What the engine is, with its counters as they stand."""
        config, profile = self._config, self._profile
        return EngineInfo(
            engine="simulator",
            model=config.model_name,
            version=self._version(),
            dtype=profile.dtype if profile else "",
            max_model_len=self._model.max_model_len,
            max_num_seqs=config.max_num_seqs,
            details={
                "profile": config.sim_profile,
                "source": profile.source if profile else "",
                "seed": config.sim_seed,
                "block_size": BLOCK_SIZE,
                "kv_blocks": self._scheduler.pool.blocks,
                "active_sequences": self.active_sequences,
                "tokens_produced": self.tokens_produced,
                "max_waiting": self.max_waiting,
                "preemptions": self._scheduler.preemptions,
            },
            kv_tokens=self._scheduler.pool.blocks * BLOCK_SIZE,
            tokenization=Tokenization(),
        )

    async def start(self) -> EngineInfo:
        """Get ready to run, with an empty cache.

        Raises:
            EngineDead: an unknown profile, or settings that do not fit together.
        """
        await self.stop()
        config, profile = self._config, self._profile
        if profile is None:
            raise EngineDead(f"unknown simulator profile {config.sim_profile!r}; known are: {', '.join(PROFILES)}")
        if config.max_num_batched_tokens < config.max_num_seqs:
            raise EngineDead("max_num_batched_tokens must be at least max_num_seqs")
        kv_gib = profile.kv_gib if profile.kv_gib is not None else config.kv_cache_gib
        pool = BlockPool(int(kv_gib * 2**30) // (profile.kv_bytes_per_token * BLOCK_SIZE), BLOCK_SIZE)
        self._model = Model(config.sim_seed, self._max_model_len(pool))
        self._scheduler = Scheduler(pool, config.max_num_seqs, config.max_num_batched_tokens)
        self._pace, self._log = StepPace(), StepLog()
        self._counted = (0, 0, 0)
        self._work = asyncio.Event()
        self._dead_reason = None
        self.tokens_produced = 0
        self._loop_task = asyncio.create_task(self._steps(profile), name="simulator-steps")
        self._loop_task.add_done_callback(self._steps_ended)
        return self.info

    async def probe(self) -> None:
        """Ask the model a question whose answer is known.

        Raises:
            EngineDead: it answers something else, or is dead.
        """
        self._require_alive()
        expected = words(
            Model(self._config.sim_seed, self._model.max_model_len).key(_PROBE_PROMPT, None, 0), _PROBE_TOKENS
        )
        answer = words(self._model.key(_PROBE_PROMPT, None, 0), _PROBE_TOKENS)
        if answer != expected:
            raise EngineDead(f"known-answer probe: expected {''.join(expected)!r}, got {''.join(answer)!r}")

    def room(self) -> Room:
        """What can be taken now; what waits inside counts as taken."""
        scheduler, pool = self._scheduler, self._scheduler.pool
        free_seqs = scheduler.max_num_seqs - len(scheduler.running) - len(scheduler.waiting)
        free_blocks = pool.free - scheduler.blocks_owed()
        if self._dead_reason is not None:
            free_seqs = free_blocks = 0
        kept = (pool.blocks, BLOCK_SIZE, scheduler.preemptions, self._pace.step_ms)
        return Room(
            *(max(free_seqs, 0), scheduler.max_num_seqs, max(free_blocks, 0), *kept),
            prompt_tokens=scheduler.prompt_tokens,
            cached_tokens=scheduler.cached_tokens,
            generated_tokens=scheduler.generated_tokens,
        )

    def take_steps(self) -> list[MadeStep]:
        """See the port."""
        return self._log.take()

    def take_launches(self) -> list[Launches]:
        """See the port: it launches nothing."""
        return []

    async def run(self, job: Job) -> AsyncGenerator[Frame, None]:
        """Run one job; see the port."""
        self._require_alive()
        asked = read_request(job, self._model.max_model_len)
        job.times.queued_us = now_us()
        if asked.faults.queue:
            await asyncio.sleep(asked.faults.queue)
            self._require_alive()
        run = self._admit(job, asked)
        frames = run.frames
        try:
            while True:
                while frames:
                    yield frames.popleft()
                if run.ended:
                    break
                await run.wait()
        finally:
            job.times.preemptions = sum(part.sequence.preemptions for part in run.parts)
            self._forget(run)
            self._journal.ended(run)
        if run.error is not None:
            raise run.error

    async def stop(self) -> None:
        """Stop; jobs under way end with EngineDead."""
        self._die("the engine was stopped")
        task, self._loop_task = self._loop_task, None
        if task is not None:
            task.cancel()
            await asyncio.wait((task,))

    def _version(self) -> str:
        config = self._config
        parts = (
            config.model_name,
            self._profile,
            config.sim_seed,
            self._model.max_model_len,
            config.max_num_seqs,
            config.max_num_batched_tokens,
            self._scheduler.pool.blocks,
        )
        return f"sim-1.0.0-{blake2b(repr(parts).encode(), digest_size=6).hexdigest()}"

    def _max_model_len(self, pool: BlockPool) -> int:
        room = pool.blocks * BLOCK_SIZE
        wanted = self._config.max_model_len
        if wanted > room or not room:
            raise EngineDead(f"max_model_len {wanted} does not fit into the KV cache of {room} tokens")
        return wanted or min(_DEFAULT_MAX_MODEL_LEN, room)

    def _require_alive(self) -> None:
        if self._dead_reason is not None:
            raise EngineDead(self._dead_reason)

    def _admit(self, job: Job, asked: Asked) -> Run:
        self._play_first_faults(asked, job)
        run = Run(job, asked, self._config.model_name)
        ready_at_s = _ready_at_s(asked)
        for prompt in asked.prompts:
            hashes = prefix_hashes(prompt.data, job.cache_salt, _BYTES_PER_BLOCK)
            for choice in range(asked.choices):
                part = run.add_part(word_answer(self._model, asked, prompt, choice, job))
                part.sequence = self._sequence(part, prompt, hashes, job.priority, ready_at_s)
        for part in run.parts:
            self._scheduler.add(part.sequence)
        self._runs.add(run)
        self._work.set()
        return run

    def _sequence(
        self, part: Part, prompt: Prompt, hashes: tuple[bytes, ...], priority: int, ready_at_s: float
    ) -> Sequence[Part]:
        answer = part.answer
        return Sequence(
            part, prompt.tokens, len(answer.tokens), priority, hashes, produced=answer.start, ready_at_s=ready_at_s
        )

    def _play_first_faults(self, asked: Asked, job: Job) -> None:
        faults = asked.faults
        if faults.garbage:
            self._model = Model(self._model.seed, self._model.max_model_len, wrong=True)
        if faults.error is not None:
            if faults.error < 500:
                refusal = rejected(f"scripted error {faults.error}", "metadata.sim", status=faults.error)
                raise RequestRejected(refusal.status, refusal.error, faults.retry_after)
            raise RequestFailed(f"scripted error {faults.error}")
        if faults.kill_engine == 0:
            self._die("scripted death of the engine")
        self._require_alive()
        if _dies_after(asked, job) == 0:
            raise RequestFailed("scripted failure before the first token")

    def _forget(self, run: Run) -> None:
        self._runs.discard(run)
        for part in run.parts:
            self._scheduler.abort(part.sequence)
        self._work.set()  # what waits may fit now

    def _die(self, reason: str) -> None:
        if self._dead_reason is None:
            self._dead_reason = reason
        for run in tuple(self._runs):
            run.fail(EngineDead(reason))
            self._forget(run)

    async def _steps(self, profile: Profile) -> None:
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while self._dead_reason is None:
            now_s, begun_us = loop.time(), now_us()
            step = self._scheduler.plan(now_s)
            if not step.chunks:
                self._pace.pause()
                await self._wait_for_work(now_s)
                continue
            _note_scheduled(step)
            duration_s = profile.step_s(step.tokens, len(step.chunks))
            # A step starts when the last one was due, so that late timers do not add up; after a pause it starts now.
            due_s = (due_s if now_s - due_s < duration_s else now_s) + duration_s
            await asyncio.sleep(max(0.0, due_s - now_s))
            advanced = self._scheduler.commit(step)
            self._note_step(step, begun_us)
            self._deliver(advanced)
            self._pace.step(loop.time(), more=bool(self._scheduler.running or self._scheduler.waiting))

    def _note_step(self, step: Step[Part], begun_us: int) -> None:
        scheduler, pool, ended_us = self._scheduler, self._scheduler.pool, now_us()
        counts = scheduler.prompt_tokens, scheduler.generated_tokens, scheduler.preemptions
        before, self._counted = self._counted, counts
        self._log.add(
            MadeStep(
                ended_us=ended_us,
                duration_us=max(0, ended_us - begun_us),
                running=len(step.chunks),
                waiting=len(scheduler.waiting),
                prompt_tokens=counts[0] - before[0],
                generated_tokens=counts[1] - before[1],
                kv_usage_permille=1000 * (pool.blocks - pool.free) // pool.blocks,
                preemptions=counts[2] - before[2],
            )
        )

    def _steps_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._die(f"the step loop failed: {error!r}")

    async def _wait_for_work(self, now_s: float) -> None:
        self._work.clear()
        ready_s = self._scheduler.next_ready_s(now_s)
        if ready_s is None:
            await self._work.wait()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ready_s - now_s if ready_s < inf else None):
                await self._work.wait()

    def _deliver(self, advanced: list[Sequence[Part]]) -> None:
        self.tokens_produced += len(advanced)
        now = now_us()
        for sequence in advanced:
            part = sequence.owner
            run = part.run
            if run.ended:
                continue
            run.take_token(part)
            run.job.times.token(now)
            if run.asked.faults is not NO_FAULTS:
                self._play_faults(run, part)
            run.wake()

    def _play_faults(self, run: Run, part: Part) -> None:
        faults, tokens = run.asked.faults, run.tokens
        if faults.kill_engine is not None and tokens >= faults.kill_engine:
            self._die("scripted death of the engine")
        elif tokens >= _dies_after(run.asked, run.job):
            run.fail(RequestFailed(f"scripted failure after {tokens} tokens"))
            self._forget(run)
        elif faults.hang_after is not None and tokens >= faults.hang_after:
            for silent in run.parts:
                silent.sequence.ready_at_s = inf
        elif faults.itl:
            part.sequence.ready_at_s = asyncio.get_running_loop().time() + faults.itl


def _note_scheduled(step: Step[Part]) -> None:
    now = now_us()
    for sequence, _ in step.chunks:
        times = sequence.owner.run.job.times
        times.scheduled_us = times.scheduled_us or now


def _dies_after(asked: Asked, job: Job) -> float:
    """Tokens after which this attempt is to fail; infinity for never."""
    faults = asked.faults
    if faults.die_once_after is not None and not (job.delivered_text or job.delivered_tokens):
        return faults.die_once_after
    return inf if faults.die_after is None else faults.die_after


def _ready_at_s(asked: Asked) -> float:
    faults = asked.faults
    if faults.hang_after == 0:
        return inf
    return asyncio.get_running_loop().time() + faults.delay if faults.delay else 0.0
