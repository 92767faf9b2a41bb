"""The simulator counts what it computes, apart from what its frames tell, and keeps a journal of it."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from domain.config import Config
from domain.usage import Usage
from workers.engines.port import EngineDead, Frame, Job, RequestFailed
from workers.engines.simulator import SimulatorEngine

CONFIG = Config(engine="simulator", sim_profile="zero", max_num_seqs=4, kv_cache_gib=0.25)


def job(sim: str = "", *, stream: bool = True, **fields: Any) -> Job:
    body = {"model": "m", "messages": [{"role": "user", "content": "hello " * 40}], "metadata": {"sim": sim}, **fields}
    return Job(str(uuid4()), "chat", json.dumps(body).encode(), stream)


async def usage_of(frames: AsyncGenerator[Frame, None], most: int = 10_000) -> Usage:
    """What the frames told, of the first ``most`` of them."""
    usage, count = Usage(), 0
    async with aclosing(frames):
        async for frame in frames:
            usage, count = frame.usage, count + 1
            if count == most:
                break
    return usage


def counts(engine: SimulatorEngine) -> tuple[int, int, int]:
    room = engine.room()
    return room.prompt_tokens, room.cached_tokens, room.generated_tokens


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_what_the_scheduler_counts_is_what_whole_answers_tell(tmp_path: Path) -> None:
    engine = SimulatorEngine(replace(CONFIG, sim_journal=str(tmp_path / "journal")))
    await engine.start()
    jobs = [job("tokens=20"), job("tokens=5", stream=False), job("tokens=3", n=2)]
    told = [await usage_of(engine.run(one)) for one in jobs]

    assert counts(engine) == (
        sum(one.prompt_tokens for one in told) + told[2].prompt_tokens,  # each choice computes the prompt
        sum(one.cached_tokens for one in told) + told[2].cached_tokens,
        sum(one.completion_tokens for one in told),
    )
    assert [(line["request_id"], line["how"]) for line in lines(tmp_path / "journal")] == [
        (one.request_id, "completed") for one in jobs
    ]
    assert [Usage(line["prompt"], line["cached"], line["completion"]) for line in lines(tmp_path / "journal")] == told
    await engine.stop()


async def test_an_answer_that_goes_on_counts_what_this_attempt_made(tmp_path: Path) -> None:
    engine = SimulatorEngine(replace(CONFIG, sim_journal=str(tmp_path / "journal")))
    await engine.start()
    first = job("tokens=20")
    texts = []
    async with aclosing(engine.run(first)) as frames:
        async for frame in frames:
            texts += [choice["delta"].get("content") or "" for choice in json.loads(frame.data)["choices"]]
            if frame.usage.completion_tokens == 8:
                break
    usage = await usage_of(engine.run(replace(first, delivered_text="".join(texts), delivered_tokens=8)))

    aborted, completed = lines(tmp_path / "journal")
    assert (aborted["how"], completed["how"]) == ("aborted", "completed")
    assert aborted["generated"] == aborted["completion"] >= 8
    assert (completed["completion"], completed["generated"]) == (20, 12)
    assert usage.completion_tokens == 20
    assert counts(engine)[2] == aborted["generated"] + 12
    await engine.stop()


@pytest.mark.parametrize(("fault", "error"), [("die_after=4", RequestFailed), ("kill_engine=4", EngineDead)])
async def test_attempts_that_fail_are_in_the_journal(tmp_path: Path, fault: str, error: type[Exception]) -> None:
    engine = SimulatorEngine(replace(CONFIG, sim_journal=str(tmp_path / "journal")))
    await engine.start()
    with pytest.raises(error):
        await usage_of(engine.run(job(fault + ",tokens=20")))

    (line,) = lines(tmp_path / "journal")
    assert (line["how"], line["completion"]) == (error.__name__, 4)
    await engine.stop()


async def test_several_processes_may_share_a_journal(tmp_path: Path) -> None:
    engines = [SimulatorEngine(replace(CONFIG, sim_journal=str(tmp_path / "journal"))) for _ in range(2)]
    for engine in engines:
        await engine.start()
    await asyncio.gather(*(usage_of(engine.run(job("tokens=9"))) for engine in engines for _ in range(4)))

    assert [line["completion"] for line in lines(tmp_path / "journal")] == [9] * 8
    for engine in engines:
        await engine.stop()
