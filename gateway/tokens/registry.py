"""What a gateway process knows of its models' tokenizers, and how it counts by them without holding others up."""

import asyncio
import math
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from gateway.schema import Ask, CompletionsRequest
from gateway.tokens.estimate import estimate
from gateway.tokens.reading import begin, count_parts
from tracing import logs, metrics
from workers.state import WorkerState
from workers.tokenization.counter import Count, Counter, make_counter
from workers.tokenization.rule import KEY, unpack
from workers.tokenization.template import CannotRender

log = logs.get(__name__)

BEGIN_INLINE_BYTES = 64 * 1024
BEGIN_INLINE_PARTS = 64
"""Prompts with more bytes, or of more messages, are not even looked at on the event loop."""

ENCODE_INLINE_CHARACTERS = 1024
"""More than so much new text is encoded on a thread: at half a microsecond a byte it costs more than the way there."""

TURN_S = 0.02
"""How long one request keeps a thread; then the next one has its turn."""

THREADS = 2


class TokenCounts:
    """The counters of all models that this gateway has met."""

    def __init__(self) -> None:
        self._counters: dict[str, tuple[str, Counter]] = {}
        self._contexts: dict[str, int] = {}
        self._unusable: set[str] = set()
        self._pool = ThreadPoolExecutor(THREADS, "token-counts")

    async def follow(self, redis: Redis, workers: Iterable[WorkerState]) -> None:
        """Learn the rules that these workers have published; of two rules for one model that of the younger worker.

        A rule that cannot be had now is asked for again the next time.
        """
        youngest = {worker.model: worker for worker in sorted(workers, key=_age) if worker.tokenizer}
        for model, worker in youngest.items():
            self._contexts[model] = worker.max_model_len
            known = self._counters.get(model)
            if (known is None or known[0] != worker.tokenizer) and worker.tokenizer not in self._unusable:
                await self._learn(redis, model, worker.tokenizer)

    async def counted(self, ask: Ask, cache_salt: str) -> Ask:
        """The request with the tokens of its prompts, and without the prompts themselves.

        Args:
            ask: the request; its model is the name under which engines serve it.
            cache_salt: of the tenant; what was counted before is remembered for it alone.
        """
        found = self._counters.get(ask.model)
        counts = await self._count(found[1], ask, cache_salt.encode()) if found else None
        metrics.prompt_counts.labels(ask.model, "estimate" if counts is None else "tokenizer").inc()
        if counts is None:
            return replace(ask, request=None, prompt_tokens=estimate(ask.prompt_bytes))
        return replace(
            ask,
            request=None,
            prompt_tokens=sum(count.tokens for count in counts),
            longest_at_least=max(count.at_least for count in counts) if _is_plain(ask.request) else 0,
        )

    def stop(self) -> None:
        """End the threads; who still waits for them is cancelled."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _learn(self, redis: Redis, model: str, digest: str) -> None:
        try:
            packed = cast("bytes | None", await redis.get(KEY + digest))
            if packed is None:
                return
            begun = time.monotonic()
            counter = await asyncio.to_thread(lambda: make_counter(unpack(digest, packed)))
        except (RedisError, OSError) as error:
            log.warning("rule_not_read", model=model, error=str(error))
            return
        except Exception as error:  # a tokenizer or template of a form that this library does not know
            log.error("rule_not_usable", model=model, error=f"{type(error).__name__}: {error}")
            self._unusable.add(digest)
            return
        self._counters[model] = (digest, counter)
        log.info("rule_learnt", model=model, digest=digest, seconds=round(time.monotonic() - begun, 2))

    async def _count(self, counter: Counter, ask: Ask, salt: bytes) -> Sequence[Count] | None:
        request = ask.request
        assert request is not None, "a request is counted once"
        loop = asyncio.get_running_loop()
        try:
            if ask.prompt_bytes <= BEGIN_INLINE_BYTES and count_parts(request) <= BEGIN_INLINE_PARTS:
                counts = begin(counter, request, salt)
            else:
                counts = await loop.run_in_executor(self._pool, begin, counter, request, salt)
        except CannotRender:
            return None
        context = self._contexts[ask.model]
        if sum(count.open_characters for count in counts) <= ENCODE_INLINE_CHARACTERS:
            _encode(counter, counts, context)
        else:
            while not await loop.run_in_executor(self._pool, _encode, counter, counts, context, TURN_S):
                pass
        return counts


def _encode(counter: Counter, counts: Sequence[Count], context: int, for_s: float = math.inf) -> bool:
    """Encode what is open, for about so long; returns whether that was all.

    What has more tokens than the ``context`` of its model is refused in any case, and not worth counting further.
    """
    until = time.monotonic() + for_s
    for count in counts:
        while count.open:
            if time.monotonic() > until:
                return False
            counter.encode_piece(count)
            if count.at_least > context:
                count.give_up()
    return True


def _age(worker: WorkerState) -> int:
    return worker.started_at


def _is_plain(request: object) -> bool:
    """Texts that the engine gets as they are: neither put into a chat template nor cut where they are too long."""
    return isinstance(request, CompletionsRequest) and request.truncate_prompt_tokens is None
