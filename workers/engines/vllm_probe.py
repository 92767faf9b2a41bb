"""The known-answer probe of a vLLM engine."""

import asyncio
from collections.abc import Sequence
from time import monotonic
from typing import Protocol

from workers.engines.known_answer import (
    GreedyAnswer,
    Reference,
    WrongAnswer,
    check_finite,
    check_greedy,
    check_likelihood,
)
from workers.engines.models.reference import TEXT
from workers.engines.port import EngineDead
from workers.engines.vllm_arguments import PROBE_SEQS

LOOK_S = 5.0
IDLE_LOOKS = 8
"""Counted in looks and not in seconds, since this process may have been the one that was held up."""

TIMEOUT_S = 300.0


class Computer(Protocol):
    """What the probe asks of the engine; each computes afresh, nothing from a cache, ahead of all that waits."""

    def steps_made(self) -> int:
        """Steps that the engine has made so far."""

    def tokenize(self, text: str) -> list[int]:
        """Token ids of ``text``."""

    async def likelihood(self, tokens: Sequence[int]) -> list[float]:
        """Negative log-likelihood in nats of each of ``tokens`` but the first, given those before it."""

    async def greedy(self, prompt: Sequence[int], count: int) -> Sequence[int]:
        """The ``count`` tokens that follow ``prompt`` greedily, fewer if the model ends."""


class Probe:
    """Compares likelihood and, in float32, greedy tokens with the model's known answers."""

    def __init__(self, computer: Computer, reference: Reference | None, dtype: str) -> None:
        self._computer, self._reference, self._dtype = computer, reference, dtype

    async def prove(self) -> None:
        """Raises EngineDead: a wrong answer, none in time, or the engine's processes are gone."""
        proof = asyncio.create_task(self._prove())
        try:
            await self._wait_while_it_moves(proof)
            await proof
        except* EngineDead as group:
            raise EngineDead(str(_first(group))) from group
        except* Exception as group:
            error = _first(group)
            kind = "" if isinstance(error, WrongAnswer) else f"{type(error).__name__}: "
            raise EngineDead(f"known-answer probe: {kind}{error}") from group
        finally:
            proof.cancel()

    async def _wait_while_it_moves(self, proof: asyncio.Task[None]) -> None:
        """A busy engine may be slow, but it makes steps; one that hangs makes none, look after look."""
        begun, idle_looks = monotonic(), 0
        while not proof.done():
            steps = self._computer.steps_made()
            await asyncio.wait({proof}, timeout=LOOK_S)
            idle_looks = idle_looks + 1 if steps == self._computer.steps_made() else 0
            if idle_looks >= IDLE_LOOKS and not proof.done():
                raise WrongAnswer(f"expected an answer, found no step of the engine in {idle_looks * LOOK_S:g} s")
            if monotonic() - begun > TIMEOUT_S and not proof.done():
                raise WrongAnswer(f"expected an answer within {TIMEOUT_S:g} s, found none")

    async def _prove(self) -> None:
        """Never more than ``PROBE_SEQS`` sequences at once: the places kept for it."""
        places = asyncio.Semaphore(PROBE_SEQS)
        greedy = self._reference.greedy if self._reference and self._dtype == "float32" else ()
        async with asyncio.TaskGroup() as proofs:
            proofs.create_task(self._prove_likelihood(places))
            for answer in greedy:
                proofs.create_task(self._prove_greedy(answer, places))

    async def _prove_likelihood(self, places: asyncio.Semaphore) -> None:
        reference = self._reference
        tokens = list(reference.text_tokens) if reference else self._computer.tokenize(TEXT)
        async with places:
            nll = await self._computer.likelihood(tokens)
        if reference:
            check_likelihood(reference, nll, self._dtype)
        else:
            check_finite(nll)

    async def _prove_greedy(self, answer: GreedyAnswer, places: asyncio.Semaphore) -> None:
        async with places:
            tokens = await self._computer.greedy(answer.prompt, len(answer.tokens))
        check_greedy(answer, tokens)


def _first(group: BaseExceptionGroup[Exception]) -> Exception:
    """The first error that is not a group itself."""
    error = group.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
