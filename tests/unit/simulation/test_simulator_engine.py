"""The simulator's own promises: scripted faults, pacing by profile, exact room, counters."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest

from domain.config import Config
from domain.simulation.faults import KNOWN_FAULTS
from workers.engines.port import EngineDead, EngineInfo, Frame, Job, RequestFailed, RequestRejected
from workers.engines.simulator import SimulatorEngine

CONFIG = Config(engine="simulator", sim_profile="zero", max_num_seqs=4, kv_cache_gib=0.25)


@pytest.fixture
async def engine() -> AsyncIterator[SimulatorEngine]:
    engine = SimulatorEngine(CONFIG)
    await engine.start()
    yield engine
    await engine.stop()


def job(faults: str = "", *, stream: bool = True, content: str = "hello", **fields: Any) -> Job:
    body = {"model": "m", "messages": [{"role": "user", "content": content}], **fields}
    if faults:
        body["metadata"] = {"sim": faults}
    return Job(str(uuid4()), "chat", json.dumps(body).encode(), stream)


async def collect(frames: AsyncGenerator[Frame, None]) -> list[Frame]:
    async with aclosing(frames):
        return [frame async for frame in frames]


async def until_it_fails(frames: AsyncGenerator[Frame, None], error: type[Exception]) -> list[Frame]:
    """The frames that came before the job failed with ``error``."""
    came: list[Frame] = []
    with pytest.raises(error):
        await _append_all(frames, came)
    return came


async def _append_all(frames: AsyncGenerator[Frame, None], came: list[Frame]) -> None:
    async for frame in frames:
        came.append(frame)


def text_of(frames: list[Frame]) -> str:
    choices = [choice for frame in frames for choice in json.loads(frame.data)["choices"]]
    return "".join((choice.get("delta") or choice["message"]).get("content") or "" for choice in choices)


# --- faults -------------------------------------------------------------------------------------------------------


async def test_tokens_sets_the_length(engine: SimulatorEngine) -> None:
    frames = await collect(engine.run(job("tokens=100")))

    assert frames[-1].usage.completion_tokens == 100


async def test_max_tokens_still_bounds_a_scripted_length(engine: SimulatorEngine) -> None:
    frames = await collect(engine.run(job("tokens=100", max_tokens=7)))

    assert frames[-1].usage.completion_tokens == 7


async def test_die_after_fails_every_attempt_after_its_tokens(engine: SimulatorEngine) -> None:
    first = await until_it_fails(engine.run(job("die_after=3,tokens=10")), RequestFailed)
    again = replace(job("die_after=3,tokens=10"), delivered_text=text_of(first), delivered_tokens=3)
    second = await until_it_fails(engine.run(again), RequestFailed)

    assert first[-1].usage.completion_tokens == 3
    assert second[-1].usage.completion_tokens == 6
    assert engine.room().free_seqs == 4


async def test_die_once_after_lets_the_second_attempt_finish(engine: SimulatorEngine) -> None:
    whole = text_of(await collect(engine.run(job("tokens=10"))))
    first = await until_it_fails(engine.run(job("die_once_after=4,tokens=10")), RequestFailed)
    again = replace(job("die_once_after=4,tokens=10"), delivered_text=text_of(first), delivered_tokens=4)

    assert text_of(first) + text_of(await collect(engine.run(again))) == whole


async def test_a_unary_job_dies_without_a_frame(engine: SimulatorEngine) -> None:
    assert await until_it_fails(engine.run(job("die_after=3,tokens=10", stream=False)), RequestFailed) == []


@pytest.mark.parametrize("script", ["hang_after=2", "hang_after=0", "delay=3600", "itl=3600"])
async def test_a_silent_job_keeps_its_seat_until_it_is_closed(engine: SimulatorEngine, script: str) -> None:
    task = asyncio.create_task(collect(engine.run(job(f"{script},tokens=10"))))
    other = await collect(engine.run(job("tokens=5", content="other")))

    assert other[-1].usage.completion_tokens == 5
    assert not task.done()
    assert engine.active_sequences == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert engine.room().free_seqs == 4


@pytest.mark.parametrize("script", ["delay=0.05,tokens=3", "itl=0.02,tokens=3"])
async def test_slow_jobs_finish(engine: SimulatorEngine, script: str) -> None:
    frames = await collect(engine.run(job(script)))

    assert frames[-1].usage.completion_tokens == 3


@pytest.mark.parametrize("status", [400, 422, 429])
async def test_error_below_500_rejects(engine: SimulatorEngine, status: int) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await collect(engine.run(job(f"error={status}")))

    assert refusal.value.status == status


@pytest.mark.parametrize(("script", "seconds"), [("error=429,retry_after=7", 7), ("error=429", None)])
async def test_a_refusal_may_say_when_to_come_back(engine: SimulatorEngine, script: str, seconds: int | None) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await collect(engine.run(job(script)))

    assert refusal.value.retry_after_s == seconds


@pytest.mark.parametrize("script", ["error=500", "error=503", "die_after=0"])
async def test_error_from_500_fails(engine: SimulatorEngine, script: str) -> None:
    assert await until_it_fails(engine.run(job(script)), RequestFailed) == []


@pytest.mark.parametrize("script", ["kill_engine", "kill_engine=2"])
async def test_a_killed_engine_is_dead_for_all_until_it_starts_again(engine: SimulatorEngine, script: str) -> None:
    neighbour = asyncio.create_task(collect(engine.run(job("hang_after=1,tokens=9"))))
    await asyncio.sleep(0)
    await until_it_fails(engine.run(job(script)), EngineDead)

    with pytest.raises(EngineDead):
        await neighbour
    await until_it_fails(engine.run(job()), EngineDead)
    with pytest.raises(EngineDead):
        await engine.probe()
    assert engine.room().free_seqs == 0
    await engine.start()
    assert await collect(engine.run(job()))
    assert engine.room().free_seqs == 4


async def test_garbage_changes_answers_and_fails_the_probe_until_restart(engine: SimulatorEngine) -> None:
    right = text_of(await collect(engine.run(job())))
    await engine.probe()
    await collect(engine.run(job("garbage")))

    assert text_of(await collect(engine.run(job()))) != right
    with pytest.raises(EngineDead, match="expected"):
        await engine.probe()
    await engine.start()
    await engine.probe()
    assert text_of(await collect(engine.run(job()))) == right


async def test_multibyte_text_is_never_cut_inside_a_character(engine: SimulatorEngine) -> None:
    frames = await collect(engine.run(job("utf8,tokens=40")))
    pieces = [text_of([frame]) for frame in frames]

    assert "".join(pieces).startswith("你好🙂é你好🙂é")
    assert "�" not in "".join(pieces)
    assert len(frames) < 41  # a token that completes no character gives no frame


@pytest.mark.parametrize("stream", [True, False])
async def test_big_answers_have_exactly_their_size(engine: SimulatorEngine, stream: bool) -> None:
    frames = await collect(engine.run(job("big=3000000", stream=stream, max_tokens=16)))

    assert len(text_of(frames).encode()) == 3_000_000


async def test_an_unknown_fault_is_rejected_with_the_known_ones(engine: SimulatorEngine) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await collect(engine.run(job("explode=1")))

    assert refusal.value.status == 400
    assert all(name in refusal.value.error["message"] for name in KNOWN_FAULTS)


# --- answers ------------------------------------------------------------------------------------------------------


async def test_a_required_tool_is_called(engine: SimulatorEngine) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 3}}}
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    (frame,) = await collect(engine.run(job(stream=False, tools=tools, tool_choice="required")))
    (choice,) = json.loads(frame.data)["choices"]

    assert choice["finish_reason"] == "tool_calls"
    assert json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"]) == {"city": "water", "days": 3}


async def test_json_object_is_an_object(engine: SimulatorEngine) -> None:
    (frame,) = await collect(engine.run(job(stream=False, response_format={"type": "json_object"})))

    assert isinstance(json.loads(text_of([frame])), dict)


async def test_min_tokens_and_ignore_eos_lengthen_the_answer(engine: SimulatorEngine) -> None:
    (least,) = await collect(engine.run(job(stream=False, min_tokens=80)))
    (endless,) = await collect(engine.run(job(stream=False, ignore_eos=True, max_tokens=200)))

    assert least.usage.completion_tokens == 80
    assert endless.usage.completion_tokens == 200


async def test_echo_repeats_the_prompt(engine: SimulatorEngine) -> None:
    body = json.dumps({"model": "m", "prompt": "Once upon", "echo": True, "max_tokens": 4}).encode()
    (frame,) = await collect(engine.run(Job(str(uuid4()), "completions", body, False)))

    assert json.loads(frame.data)["choices"][0]["text"].startswith("Once upon")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"\xff",
        b'{"messages": ' + b"[" * 100_000,
        b'{"messages": []}',
        b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": NaN}',
        b'{"messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"messages": [{"role": "user", "content": "x"}], "metadata": {"sim": 5}}',
        b'{"messages": [{"role": "user", "content": "x"}], "stop": [""]}',
        b'{"messages": [{"role": "user", "content": "x"}], "min_tokens": 9, "max_tokens": 3}',
    ],
)
async def test_a_hostile_body_is_rejected(engine: SimulatorEngine, body: bytes) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await collect(engine.run(Job(str(uuid4()), "chat", body, True)))

    assert refusal.value.status == 400


@pytest.mark.parametrize("prompt", [[], [[]], ["a", 1], [-1], [2**40], [True], {"a": 1}, [["a"]], None])
async def test_a_hostile_prompt_is_rejected(engine: SimulatorEngine, prompt: object) -> None:
    body = json.dumps({"model": "m", "prompt": prompt}).encode()
    with pytest.raises(RequestRejected) as refusal:
        await collect(engine.run(Job(str(uuid4()), "completions", body, True)))

    assert refusal.value.status == 400


# --- the model under it -------------------------------------------------------------------------------------------


async def test_all_running_sequences_get_a_token_in_one_wake_up(engine: SimulatorEngine) -> None:
    counts = [0] * 4

    async def follow(index: int) -> None:
        async for _ in engine.run(job("tokens=30", content=str(index))):
            counts[index] += 1
            assert max(counts) - min(counts) <= 2  # the first token comes with its role

    await asyncio.gather(*map(follow, range(4)))

    assert counts == [31] * 4


async def test_counters_tell_what_happened(engine: SimulatorEngine) -> None:
    await asyncio.gather(*(collect(engine.run(job("tokens=6", content=str(index)))) for index in range(10)))

    assert engine.tokens_produced == 60
    assert engine.max_waiting == 10
    assert engine.active_sequences == 0
    assert engine.info.details["tokens_produced"] == 60


async def test_waiting_jobs_count_against_the_room(engine: SimulatorEngine) -> None:
    tasks = [asyncio.create_task(collect(engine.run(job("hang_after=1")))) for _ in range(6)]
    while engine.tokens_produced < 4:
        await asyncio.sleep(0)

    assert engine.active_sequences == 4
    assert engine.room().free_seqs == 0
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert engine.room().free_seqs == 4
    assert engine.room().free_kv_blocks == engine.room().kv_blocks


async def test_a_cache_too_small_for_all_preempts_and_still_answers_alike() -> None:
    roomy, tight = (SimulatorEngine(replace(CONFIG, kv_cache_gib=gib, max_model_len=256)) for gib in (0.25, 0.0003))
    answers = []
    for engine in (roomy, tight):
        await engine.start()
        jobs = [job("tokens=60", content="long " * 60 + str(index)) for index in range(4)]
        frames = await asyncio.gather(*(collect(engine.run(item)) for item in jobs))
        answers.append([text_of(part) for part in frames])
        await engine.stop()

    assert roomy.room().preemptions == 0
    assert tight.room().preemptions > 0
    assert answers[0] == answers[1]


async def test_silence_between_steps_does_not_slow_the_pace(engine: SimulatorEngine) -> None:
    assert engine.room().step_ms == 0
    await collect(engine.run(job("tokens=40")))
    step_ms = engine.room().step_ms
    await collect(engine.run(job("tokens=3,itl=0.05")))

    assert engine.room().step_ms == step_ms > 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sim_profile": "unheard-of"}, "known are"),
        ({"max_model_len": 10_000_000}, "does not fit"),
        ({"max_num_batched_tokens": 16, "max_num_seqs": 32}, "max_num_batched_tokens"),
    ],
)
async def test_settings_that_do_not_fit_stop_the_start(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EngineDead, match=message):
        await SimulatorEngine(replace(CONFIG, **change)).start()


async def test_the_version_follows_seed_and_profile() -> None:
    changes: list[dict[str, Any]] = [{}, {}, {"sim_seed": 1}, {"sim_profile": "h100-llama-3.1-8b"}]
    versions = {(await _started(replace(CONFIG, **change))).version for change in changes}

    assert len(versions) == 3
    assert all(version.startswith("sim-1.0.0-") for version in versions)


async def _started(config: Config) -> EngineInfo:
    engine = SimulatorEngine(config)
    info = await engine.start()
    await engine.stop()
    return info
