"""What holds for the real engine beyond the contract."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
import pytest_asyncio
from engine_client import Reply, ask, chat, completion, opened

from domain.config import Config
from domain.qos import POLICIES, QosClass
from workers.engines.factory import make_engine
from workers.engines.known_answer import Reference
from workers.engines.port import Engine, EngineDead, RequestRejected
from workers.engines.vllm_arguments import PROBE_SEQS

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(600),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # vLLM and torch warn of themselves
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

BATCH = 16
CONFIG = replace(Config(), max_num_seqs=BATCH, max_model_len=2048, kv_cache_gib=0.5, trace_model=True)
FRANCE = "What is the capital of France?"
LOOKS = 600
"""How often, ten times a second, a test looks for something before it gives up."""

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vllm() -> AsyncIterator[Engine]:
    engine = make_engine(CONFIG)
    await engine.start()
    yield engine
    await engine.stop()


# --- right answers ------------------------------------------------------------------------------------------------


async def test_the_model_knows_the_capital_of_france(vllm: Engine) -> None:
    assert "Paris" in (await ask(vllm, chat(FRANCE))).text


async def test_a_batch_of_sixteen_equals_single_runs_token_for_token(vllm: Engine) -> None:
    lengths = [3, 17, 40, 90] * 4
    jobs = [
        completion(f"{number}. " + "The keeper opens the gate. " * length, max_tokens=24, return_token_ids=True)
        for number, length in enumerate(lengths)
    ]
    alone = [_token_ids(await ask(vllm, replace(job, cache_salt="b" * 32))) for job in jobs]
    together = await asyncio.gather(*(ask(vllm, replace(job, cache_salt="c" * 32)) for job in jobs))

    assert [_token_ids(reply) for reply in together] == alone


def _token_ids(reply: Reply) -> list[int]:
    return [token for item in reply.objects for choice in item["choices"] for token in choice.get("token_ids") or ()]


async def test_a_forced_token_is_all_that_comes(vllm: Engine) -> None:
    (token,) = _token_ids(await ask(vllm, completion(" river", max_tokens=1, return_token_ids=True)))
    reply = await ask(
        vllm, completion("A", max_tokens=4, return_token_ids=True, ignore_eos=True, logit_bias={str(token): 100})
    )

    assert _token_ids(reply) == [token] * 4


async def test_a_tool_round_trip_ends_in_an_answer(vllm: Engine) -> None:
    question: dict[str, Any] = {"role": "user", "content": "What is the weather in Paris?"}
    choice = {"type": "function", "function": {"name": "get_weather"}}
    asked = await ask(
        vllm,
        chat(
            "", stream=False, messages=[question], tools=[WEATHER], tool_choice=choice, max_tokens=80, ignore_eos=False
        ),
    )
    message = asked.objects[0]["choices"][0]["message"]
    (call,) = message["tool_calls"]
    assert asked.finish_reasons == [["stop"]]
    assert isinstance(json.loads(call["function"]["arguments"])["city"], str)

    said = {"role": "assistant", "content": None, "tool_calls": message["tool_calls"]}
    result = {"role": "tool", "tool_call_id": call["id"], "content": "sunny, 21 degrees"}
    answer = await ask(vllm, chat("", stream=False, messages=[question, said, result], tools=[WEATHER]))
    assert answer.text


# --- continuation -------------------------------------------------------------------------------------------------


async def test_the_usage_chunk_of_a_continued_stream_covers_all_attempts(vllm: Engine) -> None:
    fields: dict[str, Any] = {"stream_options": {"include_usage": True}}
    whole = await ask(vllm, chat(FRANCE, ignore_eos=False, **fields))
    job = replace(chat(FRANCE, ignore_eos=False, **fields), delivered_text="The capital of", delivered_tokens=3)
    rest = await ask(vllm, job)

    assert "The capital of" + rest.text == whole.text
    assert _counts(rest) == _counts(whole)
    assert "role" not in rest.objects[0]["choices"][0]["delta"]


def _counts(reply: Reply) -> list[int]:
    usage = reply.objects[-1]["usage"]
    return [usage[name] for name in ("prompt_tokens", "completion_tokens", "total_tokens")]


async def test_nothing_is_added_to_an_answer_that_was_delivered_in_full(vllm: Engine) -> None:
    job = replace(chat(FRANCE, max_tokens=3), delivered_text="The capital of", delivered_tokens=3)
    reply = await ask(vllm, job)

    assert reply.text == ""
    assert reply.finish_reasons == [["length"]]
    assert reply.usage.completion_tokens == 3


# --- known answers ------------------------------------------------------------------------------------------------


async def test_the_probe_passes_beside_a_full_engine(vllm: Engine) -> None:
    load = [asyncio.create_task(ask(vllm, chat(f"{i}", max_tokens=64, ignore_eos=True))) for i in range(2 * BATCH)]
    await asyncio.sleep(0)
    await vllm.probe()
    await asyncio.gather(*load)


@pytest.mark.parametrize("spoil", ["likelihood", "one token's likelihood", "greedy"])
async def test_the_probe_finds_a_wrong_answer_and_says_what_was_expected(
    vllm: Any, spoil: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "_reference", _spoilt(vllm._reference, spoil))

    with pytest.raises(EngineDead, match=r"known-answer probe: .*expected .*found"):
        await vllm.probe()


def _spoilt(reference: Reference, what: str) -> Reference:
    if what == "greedy":
        answer = reference.greedy[-1]
        wrong = replace(answer, tokens=(*answer.tokens[:-1], answer.tokens[-1] + 1))
        return replace(reference, greedy=(*reference.greedy[:-1], wrong))
    shift = 0.01 if what == "likelihood" else 0.0
    first, *others = [value + shift for value in reference.nll]
    return replace(reference, nll=(first + (0.02 if not shift else 0.0), *others))


async def test_without_a_reference_the_probe_asks_for_finite_numbers(
    vllm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vllm, "_reference", None)

    await vllm.probe()


# --- priorities ---------------------------------------------------------------------------------------------------


async def test_the_more_urgent_class_gets_the_next_seat_and_takes_none_away(vllm: Any) -> None:
    events: list[tuple[str, str]] = []
    preemptions = vllm.room().preemptions

    async def follow(name: str, qos_class: QosClass, tokens: int) -> None:
        job = replace(chat(name, max_tokens=tokens), priority=POLICIES[qos_class].engine_priority)
        async with aclosing(opened(vllm, job)) as frames:
            await anext(frames)
            events.append(("began", name))
            _ = [frame async for frame in frames]
        events.append(("ended", name))

    names = [f"seat {number}" for number in range(BATCH + PROBE_SEQS)]
    tasks = [asyncio.create_task(follow(name, QosClass.P2, 40 + 2 * index)) for index, name in enumerate(names)]
    await _until(lambda: len(events) == len(names))
    for held, (name, qos_class) in enumerate((("patient", QosClass.P2), ("urgent", QosClass.P0)), len(names) + 1):
        tasks.append(asyncio.create_task(follow(name, qos_class, 4)))
        await _until(lambda held=held: vllm._llm.output_processor.get_num_unfinished_requests() == held)
    await asyncio.gather(*tasks)

    assert vllm.room().preemptions == preemptions
    first_end = next(index for index, (what, _) in enumerate(events) if what == "ended")
    assert first_end < events.index(("began", "urgent")) < events.index(("began", "patient"))


async def _until(true: Callable[[], bool]) -> None:
    for _ in range(LOOKS):
        if true():
            return
        await asyncio.sleep(0.02)
    pytest.fail("it never came to that")


# --- hostile bodies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": {"99999999": 1}},
        {"logit_bias": {"a": 1}},
        {"allowed_token_ids": [99999999]},
        {"stop_token_ids": ["x"]},
        {"temperature": -1},
        {"top_p": 7},
        {"top_logprobs": 9999, "logprobs": True},
        {"min_tokens": 50, "max_tokens": 5},
        {"seed": 2**70},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "nonsense"}}}},
        {"structured_outputs": {"regex": "(((("}},
        {
            "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": 5}}}],
            "tool_choice": "required",
        },
        {"messages": []},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": 5, "content": {}}]},
        {"chat_template_kwargs": 5},
    ],
    ids=lambda fields: str(fields)[:40],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_bad_body_is_refused_or_answered_and_harms_nobody(
    vllm: Engine, fields: dict[str, Any], stream: bool
) -> None:
    neighbour = asyncio.create_task(ask(vllm, chat(FRANCE)))
    (result,) = await asyncio.gather(ask(vllm, chat(FRANCE, stream=stream, **fields)), return_exceptions=True)

    assert isinstance(result, Reply | RequestRejected)
    if isinstance(result, RequestRejected):
        assert 400 <= result.status < 500
        assert result.error["message"]
    assert "Paris" in (await neighbour).text


async def test_fields_of_ours_in_the_body_have_no_effect(vllm: Engine) -> None:
    job = chat(FRANCE, priority="x", cache_salt="@/bad", request_id="theirs", kv_transfer_params={"a": 1})
    reply = await ask(vllm, job)

    assert reply.objects[0]["id"] == f"chatcmpl-{job.request_id}"
    assert "Paris" in reply.text


# --- steps ----------------------------------------------------------------------------------------------------------


async def test_each_step_tells_the_time_inside_the_model(vllm: Engine) -> None:
    vllm.take_steps()
    await asyncio.gather(*(ask(vllm, chat(f"{number}: {FRANCE}")) for number in range(4)))
    steps = [step for step in vllm.take_steps() if step.generated_tokens]

    assert steps
    assert all(0 < step.model_us <= step.duration_us for step in steps)
    assert sum(step.model_us for step in steps) > 0.5 * sum(step.duration_us for step in steps)


# --- processes (these come last: they kill the engine) --------------------------------------------------------------


async def test_a_killed_engine_process_ends_everything_with_engine_dead(vllm: Engine) -> None:
    running = [
        asyncio.create_task(ask(vllm, chat(FRANCE, stream=stream, max_tokens=512, ignore_eos=True)))
        for stream in (True, False)
    ]
    async with aclosing(opened(vllm, chat(FRANCE, max_tokens=512, ignore_eos=True))) as frames:
        await anext(frames)
        for process in _engine_processes():
            process.kill()
        with pytest.raises(EngineDead):
            _ = [frame async for frame in frames]
    assert [type(result) for result in await asyncio.gather(*running, return_exceptions=True)] == [EngineDead] * 2
    with pytest.raises(EngineDead):
        await ask(vllm, chat(FRANCE))
    with pytest.raises(EngineDead):
        await vllm.probe()
    assert vllm.room().free_seqs == vllm.room().free_kv_blocks == 0

    await vllm.stop()
    await vllm.start()
    await vllm.probe()
    assert any(step.model_us for step in vllm.take_steps())


def _engine_processes() -> list[psutil.Process]:
    return [process for process in psutil.Process().children() if "EngineCore" in " ".join(process.cmdline())]


OWNER = """
import asyncio, threading, time
from domain.config import Config
from workers.engines.factory import make_engine

async def main():
    await make_engine(Config(max_num_seqs=4, max_model_len=512, kv_cache_gib=0.25)).start()
    print("ready", flush=True)
    await asyncio.sleep(3600)

if __name__ == "__main__":
    threading.Thread(target=asyncio.run, args=(main(),), daemon=True).start()
    time.sleep(3600)
"""


async def test_a_killed_owner_leaves_no_process_behind(tmp_path: Path) -> None:
    script = tmp_path / "owner.py"
    script.write_text(OWNER, encoding="utf-8")
    owner = await asyncio.to_thread(_start_owner, script)
    family = psutil.Process(owner.pid).children(recursive=True)
    assert any("EngineCore" in " ".join(process.cmdline()) for process in family)

    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()

    for _ in range(LOOKS):
        if not any(_lives(process) for process in family):
            return
        await asyncio.sleep(0.1)
    pytest.fail(f"still alive: {[process for process in family if _lives(process)]}")


def _start_owner(script: Path) -> "subprocess.Popen[str]":
    owner = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert owner.stdout is not None
    with owner.stdout as said:
        assert "ready\n" in iter(said.readline, "")
    return owner


def _lives(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
