"""The two passes over the prompts: each alone, then many at once."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic
from uuid import uuid4

from domain.config import Config
from domain.sameness import TOLERANCE_NATS
from workers.engines.factory import make_engine
from workers.engines.port import Engine, EngineDead, RequestFailed, RequestRejected
from workers.verify.answers import Answer, ask
from workers.verify.prompts import Prompt, prompts
from workers.verify.report import Pass, Report

Progress = Callable[[str, int, int], None]
"""Is told what is going on, how much of it is done, and how much there is; 0 of 0 for what has no parts."""


class CannotVerify(Exception):
    """The engine did not start or did not answer; the message says why."""


async def verify(
    config: Config, *, count: int, concurrency: int, max_tokens: int, fault: str, progress: Progress
) -> Report:
    """Start the configured engine, ask ``count`` prompts alone and up to ``concurrency`` at once, and stop it.

    Args:
        concurrency: 0 for as many as the engine runs at once.
        max_tokens: tokens of each answer.
        fault: a script for the simulator, which comes with the prompts of the batch.

    Raises:
        CannotVerify: the engine did not start, or failed or refused a prompt.
    """
    engine = make_engine(config)
    try:
        progress("starting the engine", 0, 0)
        info = await engine.start()
        asked = prompts(count, info.endpoints, info.max_model_len - max_tokens)
        at_once = concurrency or info.max_num_seqs
        alone = await _pass(engine, asked, 1, max_tokens, "", progress)
        batched = await _pass(engine, asked, at_once, max_tokens, fault, progress)
    except (EngineDead, RequestFailed, RequestRejected) as error:
        raise CannotVerify(str(error)) from error
    finally:
        await engine.stop()
    return Report(info, TOLERANCE_NATS.get(info.dtype, TOLERANCE_NATS["float32"]), asked, alone, batched)


async def _pass(
    engine: Engine, asked: Sequence[Prompt], at_once: int, max_tokens: int, fault: str, progress: Progress
) -> Pass:
    places, salt, done, begun = asyncio.Semaphore(at_once), uuid4().hex, 0, monotonic()
    what = "alone" if at_once == 1 else f"batched, up to {at_once} at once"

    async def one(prompt: Prompt) -> Answer:
        nonlocal done
        async with places:
            answer = await ask(engine, prompt, max_tokens, salt, fault)
        done += 1
        progress(what, done, len(asked))
        return answer

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(prompt)) for prompt in asked]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return Pass(at_once, monotonic() - begun, tuple(task.result() for task in tasks))
