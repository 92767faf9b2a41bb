"""Each arm batches the way its name says, on the real simulator."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import pytest

from bench import arms
from bench.arms import Progress, StaticBatches, Window
from bench.client import UNFINISHED, Call, Send, closed_loop
from domain.config import Config
from workers.engines.port import Frame, Job
from workers.engines.simulator import SimulatorEngine

BOUND_S = 20.0
LONG_S = 1000.0

Arm = Callable[["WatchedEngine"], AbstractAsyncContextManager[Send]]


class WatchedEngine(SimulatorEngine):
    """Remembers how many jobs ran at once at most."""

    running = most = 0

    async def run(self, job: Job) -> AsyncGenerator[Frame, None]:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            async with aclosing(super().run(job)) as frames:
                async for frame in frames:
                    yield frame
        finally:
            self.running -= 1


@asynccontextmanager
async def watched_engine() -> AsyncIterator[WatchedEngine]:
    engine = WatchedEngine(Config(engine="simulator", sim_profile="zero", max_num_seqs=4, kv_cache_gib=0.05))
    await engine.start()
    try:
        yield engine
    finally:
        await engine.stop()


def call(tokens: int, script: str = "") -> Call:
    body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": tokens, "min_tokens": tokens}
    return Call(json.dumps({**body, "metadata": {"sim": script}} if script else body).encode(), "k")


ARMS: dict[str, Arm] = {
    "direct": arms.direct,
    "one at a time": arms.one_at_a_time,
    "static": lambda engine: arms.static_batches(engine, 3, 0.01),
    "naive": lambda engine: arms.naive_window(engine, 3, 0.01),
}


@pytest.mark.parametrize("make", ARMS.values(), ids=ARMS.keys())
async def test_every_call_is_answered_with_its_tokens(make: Arm) -> None:
    async with watched_engine() as engine, make(engine) as send:
        outcomes = await closed_loop(send, [[call(3), call(5)]] * 4, BOUND_S)

    assert all(outcome.is_ok and outcome.ttft_s is not None for outcome in outcomes)
    assert sorted(outcome.tokens for outcome in outcomes) == [3] * 4 + [5] * 4


@pytest.mark.parametrize("make", ARMS.values(), ids=ARMS.keys())
async def test_what_the_end_cuts_off_keeps_its_tokens_and_frees_the_engine(make: Arm) -> None:
    async with watched_engine() as engine:
        async with make(engine) as send:
            outcomes = await closed_loop(send, [[call(4, "hang_after=2")]], 0.3)
        assert engine.active_sequences == 0

    assert [(outcome.error_code, outcome.tokens) for outcome in outcomes] == [(UNFINISHED, 2)]


async def test_one_at_a_time_never_runs_two() -> None:
    async with watched_engine() as engine, arms.one_at_a_time(engine) as send:
        await closed_loop(send, [[call(3)]] * 5, BOUND_S)

    assert engine.most == 1


async def test_direct_batching_runs_all_at_once() -> None:
    async with watched_engine() as engine, arms.direct(engine) as send:
        await closed_loop(send, [[call(3)]] * 5, BOUND_S)

    assert engine.most == 5


async def test_no_arm_finds_the_prefixes_of_an_earlier_one() -> None:
    prompt = Call(json.dumps({"messages": [{"role": "user", "content": "x" * 400}], "max_tokens": 2}).encode(), "k")
    async with watched_engine() as engine:
        for _ in range(2):
            async with arms.direct(engine) as send:
                await closed_loop(send, [[prompt]], BOUND_S)
        blocks = engine.info.details["kv_blocks"]
        assert engine.room().free_kv_blocks == blocks
        assert engine._scheduler.pool.cached == 2 * (421 // 64)


async def test_a_window_closes_with_the_one_that_fills_it() -> None:
    window = Window(2, LONG_S)
    async with asyncio.timeout(BOUND_S), asyncio.TaskGroup() as pair:
        pair.create_task(window.passed())
        pair.create_task(window.passed())
    third = asyncio.create_task(window.passed())
    await asyncio.sleep(0.01)

    assert not third.done()
    third.cancel()


async def test_a_window_closes_when_its_time_is_up() -> None:
    async with asyncio.timeout(BOUND_S):
        await Window(2, 0.01).passed()


async def test_a_static_batch_gives_out_nothing_until_all_is_done_and_then_the_next_starts() -> None:
    gates = {name: asyncio.Event() for name in "abc"}
    begun: list[str] = []

    async def run(call: Call, progress: Progress) -> None:
        begun.append(call.key)
        await gates[call.key].wait()

    batches = StaticBatches(run, 2, 0.01)
    serving = asyncio.create_task(batches.serve())
    calls = {name: asyncio.create_task(batches.work(Call(b"", name), Progress())) for name in "abc"}
    gates["a"].set()
    await asyncio.sleep(0.05)
    assert begun == ["a", "b"]
    assert not calls["a"].done()

    gates["b"].set()
    gates["c"].set()
    async with asyncio.timeout(BOUND_S):
        await asyncio.gather(*calls.values())
    assert begun == ["a", "b", "c"]
    serving.cancel()
