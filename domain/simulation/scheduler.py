"""The continuous batching of a modelled engine: which sequence computes how many tokens in the next step."""

from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from domain.simulation.blocks import BlockPool

Owner = TypeVar("Owner")


@dataclass(slots=True, eq=False)
class Sequence(Generic[Owner]):
    """One answer under way.

    Attributes:
        owner: whatever the caller wants to find again.
        prompt_tokens: length of the prompt, at least 1.
        target: tokens of the whole answer; the sequence ends when ``produced`` reaches it.
        priority: lower runs earlier and is preempted later.
        hashes: hash of every full block of the prompt.
        produced: tokens of the answer so far; starts above 0 where an earlier attempt delivered some.
        ready_at_s: no token comes before this time.
        computed: tokens whose keys and values are in the cache.
        cached_tokens: prompt tokens found in the prefix cache when the sequence first ran.
        preemptions: how often it lost its blocks.
        began_at: ``produced`` when it came.
    """

    owner: Owner
    prompt_tokens: int
    target: int
    priority: int = 0
    hashes: tuple[bytes, ...] = ()
    produced: int = 0
    ready_at_s: float = 0.0
    computed: int = 0
    cached_tokens: int = 0
    preemptions: int = 0
    blocks: list[int] = field(default_factory=list)
    order: int = 0
    published: int = 0
    gone: bool = False
    began_at: int = field(init=False)

    def __post_init__(self) -> None:
        self.began_at = self.produced

    def __lt__(self, other: "Sequence[Owner]") -> bool:
        return (self.priority, self.order) < (other.priority, other.order)


@dataclass(slots=True)
class Step(Generic[Owner]):
    """One forward pass: ``chunks`` pairs a sequence with the tokens it computes; ``tokens`` is their sum."""

    chunks: list[tuple[Sequence[Owner], int]]
    tokens: int


class Scheduler(Generic[Owner]):
    """Continuous batching with chunked prefill, priorities and preemption for KV space.

    ``plan`` chooses the next step, ``commit`` applies it; between the two the caller lets the step's time pass, and
    sequences may be added or aborted meanwhile. ``prompt_tokens`` (``cached_tokens`` of them) and ``generated_tokens``
    count what was computed, a prompt when its first token comes. Among equal priorities the order is first come, first
    served.

    Full blocks of a prompt are published when the step that computes them is planned, as in vLLM: each layer writes the
    keys and values of all tokens of a step before any of them looks back, so equal prompts of one step share them.
    """

    def __init__(self, pool: BlockPool, max_num_seqs: int, max_num_batched_tokens: int) -> None:
        self.pool = pool
        self.max_num_seqs = max_num_seqs
        self.max_num_batched_tokens = max_num_batched_tokens
        self.running: list[Sequence[Owner]] = []
        self.waiting: list[Sequence[Owner]] = []
        self.max_waiting = 0
        self.preemptions = 0
        self.prompt_tokens = self.cached_tokens = self.generated_tokens = 0
        self._orders = 0

    def add(self, sequence: Sequence[Owner]) -> None:
        """Queue a sequence.

        Raises:
            ValueError: it could never run, because it alone needs more blocks than there are.
        """
        if self.pool.blocks_for(sequence.prompt_tokens + sequence.target) > self.pool.blocks:
            raise ValueError("the sequence does not fit into the KV cache")
        self._orders += 1
        sequence.order = self._orders
        heappush(self.waiting, sequence)
        self.max_waiting = max(self.max_waiting, len(self.waiting))

    def abort(self, sequence: Sequence[Owner]) -> None:
        """Forget a sequence and free what it holds; harmless if it has ended already."""
        if sequence.gone:
            return
        sequence.gone = True
        if sequence in self.running:
            self.running.remove(sequence)
        else:
            self.waiting.remove(sequence)
            heapify(self.waiting)
        self._free(sequence)

    def blocks_owed(self) -> int:
        """Blocks that the waiting sequences will need for their prompts."""
        return sum(self.pool.blocks_for(sequence.prompt_tokens + sequence.produced) for sequence in self.waiting)

    def next_ready_s(self, now_s: float) -> float | None:
        """When the first of the sequences that are held back may go on; None if none is."""
        held = [sequence.ready_at_s for sequence in self.running if sequence.ready_at_s > now_s]
        return min(held, default=None)

    def plan(self, now_s: float) -> Step[Owner]:
        """Choose the next step: running sequences first, then waiting ones while budget, seats and blocks last."""
        step: Step[Owner] = Step([], 0)
        preempted = self.preemptions
        for sequence in tuple(self.running):
            if preempted != self.preemptions and sequence not in self.running:
                continue
            chunk = self._chunk(sequence, step, now_s)
            if chunk <= 0 or not self._grow(sequence, chunk, step):
                continue
            self._put(step, sequence, chunk)
        # Who was just preempted does not come back in the same step, unless the step would be empty.
        if self.waiting and (preempted == self.preemptions or not step.chunks):
            self._admit(step, now_s)
        return step

    def commit(self, step: Step[Owner]) -> list[Sequence[Owner]]:
        """Apply a step; returns the sequences that got a token. Those whose ``gone`` is set got their last one."""
        advanced = []
        for sequence, chunk in step.chunks:
            if sequence.gone:
                continue
            sequence.computed += chunk
            if sequence.computed == sequence.prompt_tokens + sequence.produced:
                self._count(sequence)
                sequence.produced += 1
                advanced.append(sequence)
                if sequence.produced >= sequence.target:
                    self.abort(sequence)
        return advanced

    def _count(self, sequence: Sequence[Owner]) -> None:
        if sequence.produced == sequence.began_at:
            self.prompt_tokens += sequence.prompt_tokens
            self.cached_tokens += sequence.cached_tokens
        self.generated_tokens += 1

    def _chunk(self, sequence: Sequence[Owner], step: Step[Owner], now_s: float) -> int:
        need = sequence.prompt_tokens + sequence.produced - sequence.computed
        if sequence.ready_at_s > now_s:
            need -= 1  # everything but the position that would give the next token
        return min(need, self.max_num_batched_tokens - step.tokens)

    def _grow(self, sequence: Sequence[Owner], chunk: int, step: Step[Owner]) -> bool:
        """Give a running sequence the blocks for ``chunk`` more tokens, at the cost of less urgent ones."""
        missing = self.pool.blocks_for(sequence.computed + chunk) - len(sequence.blocks)
        if missing <= 0:
            return True
        while (blocks := self.pool.take(missing)) is None:
            victim = max(self.running)
            self._preempt(victim, step)
            if victim is sequence:
                return False
        sequence.blocks += blocks
        return True

    def _preempt(self, victim: Sequence[Owner], step: Step[Owner]) -> None:
        self.running.remove(victim)
        for index, (sequence, chunk) in enumerate(step.chunks):
            if sequence is victim:
                del step.chunks[index]
                step.tokens -= chunk
                # A block that this chunk published is its last one, the first to be evicted for whom it made room.
                break
        self._free(victim)
        victim.computed = victim.published = 0
        victim.preemptions += 1
        self.preemptions += 1
        heappush(self.waiting, victim)

    def _admit(self, step: Step[Owner], now_s: float) -> None:
        while self.waiting and len(self.running) < self.max_num_seqs and step.tokens < self.max_num_batched_tokens:
            sequence = self.waiting[0]
            self._share_prefix(sequence)
            chunk = self._chunk(sequence, step, now_s)
            blocks = self.pool.take(self.pool.blocks_for(sequence.computed + chunk) - len(sequence.blocks))
            if blocks is None:
                self._free(sequence)
                sequence.computed = sequence.published = 0
                return
            heappop(self.waiting)
            self.running.append(sequence)
            sequence.blocks += blocks
            if chunk:
                self._put(step, sequence, chunk)

    def _put(self, step: Step[Owner], sequence: Sequence[Owner], chunk: int) -> None:
        step.chunks.append((sequence, chunk))
        step.tokens += chunk
        full = min((sequence.computed + chunk) // self.pool.block_size, len(sequence.hashes))
        for index in range(sequence.published, full):
            self.pool.publish(sequence.blocks[index], sequence.hashes[index])
        sequence.published = max(sequence.published, full)

    def _share_prefix(self, sequence: Sequence[Owner]) -> None:
        # The last token of the prompt is always computed: its result is the first token of the answer.
        usable = (sequence.prompt_tokens - 1) // self.pool.block_size
        sequence.blocks = self.pool.share(sequence.hashes[:usable])
        sequence.published = len(sequence.blocks)
        sequence.computed = len(sequence.blocks) * self.pool.block_size
        if not sequence.preemptions:
            sequence.cached_tokens = sequence.computed

    def _free(self, sequence: Sequence[Owner]) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []
