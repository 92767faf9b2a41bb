"""What every engine promises through the port."""

import asyncio
import json
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest
from engine_client import MAX_MODEL_LEN, MAX_NUM_SEQS, Reply, ask, chat, completion, opened, rest_of, with_salt

from workers.engines.port import Engine, EngineDead, Job, RequestRejected

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "Name three things that float on a river, and say why they do."
STEPS = 400
"""How often a test looks before it takes something for never happening."""


async def until_idle(engine: Engine) -> bool:
    for _ in range(STEPS):
        room = engine.room()
        if room.free_seqs == room.max_num_seqs and room.free_kv_blocks == room.kv_blocks:
            return True
        await asyncio.sleep(0.05)
    return False


# --- answers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [chat, completion])
async def test_stream_spells_the_unary_answer(engine: Engine, make: Any) -> None:
    streamed = await ask(engine, make(QUESTION))
    whole = await ask(engine, make(QUESTION, stream=False))

    assert len(whole.frames) == 1
    assert len(streamed.frames) > 2
    assert streamed.text == whole.text != ""
    assert streamed.finish_reasons == whole.finish_reasons


@pytest.mark.parametrize(("make", "prefix"), [(chat, "chatcmpl-"), (completion, "cmpl-")])
@pytest.mark.parametrize("stream", [True, False])
async def test_objects_carry_the_request_id(engine: Engine, make: Any, prefix: str, stream: bool) -> None:
    job: Job = make(QUESTION, stream=stream)
    reply = await ask(engine, job)

    assert {item["id"] for item in reply.objects} == {prefix + job.request_id}
    assert len({(item["model"], item["created"], item["object"]) for item in reply.objects}) == 1


async def test_only_the_first_delta_of_a_chat_has_a_role(engine: Engine) -> None:
    reply = await ask(engine, chat(QUESTION))
    roles = [choice["delta"].get("role") for item in reply.objects for choice in item["choices"]]

    assert roles[0] == "assistant"
    assert not any(roles[1:])


@pytest.mark.parametrize("make", [chat, completion])
async def test_usage_grows_and_ends_as_the_unary_usage(engine: Engine, make: Any) -> None:
    streamed = await ask(engine, make(QUESTION))
    whole = await ask(engine, make(QUESTION, stream=False))
    counts = [frame.usage.completion_tokens for frame in streamed.frames]

    assert counts == sorted(counts)
    assert counts[0] < counts[-1]
    assert streamed.usage.completion_tokens == whole.usage.completion_tokens
    assert streamed.usage.prompt_tokens == whole.usage.prompt_tokens > 0
    stated = whole.objects[0]["usage"]
    assert stated["completion_tokens"] == whole.usage.completion_tokens
    assert stated["total_tokens"] == whole.usage.completion_tokens + whole.usage.prompt_tokens


NULLABLE = {"content", "refusal", "logprobs", "finish_reason"}
"""Fields that are null where they are empty; every other field is left out then, as in OpenAI's schema."""


def nulls_in(value: Any) -> set[str]:
    """Names of members that are null, at any depth."""
    if isinstance(value, list):
        return set().union(*map(nulls_in, value))
    if not isinstance(value, dict):
        return set()
    return {name for name, inner in value.items() if inner is None}.union(*map(nulls_in, value.values()))


@pytest.mark.parametrize("make", [chat, completion])
async def test_a_whole_answer_leaves_out_what_is_not_set(engine: Engine, make: Any) -> None:
    (whole,) = (await ask(engine, make(QUESTION, stream=False))).objects
    expected = {"logprobs", "refusal"} if make is chat else {"logprobs"}

    assert nulls_in(whole) == expected


async def test_a_whole_tool_call_has_no_content(engine: Engine) -> None:
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    fields = {"tools": [tool], "tool_choice": "required", "max_tokens": 60, "ignore_eos": False}
    (whole,) = (await ask(engine, chat(QUESTION, stream=False, **fields))).objects

    assert nulls_in(whole) <= NULLABLE
    assert not whole["choices"][0]["message"]["content"]


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize("stream", [True, False])
async def test_no_answer_speaks_of_a_service_tier(engine: Engine, make: Any, stream: bool) -> None:
    reply = await ask(engine, make(QUESTION, stream=stream, service_tier="flex"))

    assert [item for item in reply.objects if "service_tier" in item] == []


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize(
    ("options", "wanted"), [({"include_usage": True}, 1), ({"include_usage": False}, 0), (None, 0)]
)
async def test_usage_chunk_comes_only_if_asked_for(
    engine: Engine, make: Any, options: dict[str, bool] | None, wanted: int
) -> None:
    fields = {} if options is None else {"stream_options": options}
    reply = await ask(engine, make(QUESTION, **fields))
    without_choices = [item for item in reply.objects if not item["choices"]]

    assert len(without_choices) == wanted
    if wanted:
        assert reply.objects[-1] == without_choices[0]
        assert without_choices[0]["usage"]["completion_tokens"] == reply.usage.completion_tokens


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize("stream", [True, False])
async def test_each_of_two_choices_finishes_once(engine: Engine, make: Any, stream: bool) -> None:
    reply = await ask(engine, make(QUESTION, stream=stream, n=2, temperature=1, seed=5))

    assert [len(reasons) for reasons in reply.finish_reasons] == [1, 1]
    assert all(reply.texts)


async def test_each_prompt_of_a_list_is_answered(engine: Engine) -> None:
    both = await ask(engine, completion(["The river", "The mountain is"]))
    alone = [await ask(engine, completion(prompt)) for prompt in ("The river", "The mountain is")]

    assert both.texts == [reply.text for reply in alone]


async def test_max_tokens_ends_with_length(engine: Engine) -> None:
    reply = await ask(engine, chat(QUESTION, max_tokens=3))

    assert reply.finish_reasons == [["length"]]
    assert reply.usage.completion_tokens == 3


@pytest.mark.parametrize("stream", [True, False])
async def test_stop_string_is_honoured_even_across_tokens(engine: Engine, stream: bool) -> None:
    fields: dict[str, Any] = {"max_tokens": 24}
    free = await ask(engine, chat(QUESTION, **fields))
    seam = len("".join(_pieces(free)[:7]))
    stop = free.text[seam - 2 : seam + 2]
    stopped = await ask(engine, chat(QUESTION, stream=stream, stop=[stop], **fields))

    assert stopped.text == free.text[: free.text.index(stop)]
    assert stopped.finish_reasons == [["stop"]]
    assert stopped.usage.completion_tokens < free.usage.completion_tokens


def _pieces(reply: Reply) -> list[str]:
    return [
        choice["delta"]["content"]
        for item in reply.objects
        for choice in item["choices"]
        if choice["delta"].get("content")
    ]


async def test_equal_seeds_give_equal_answers(engine: Engine) -> None:
    first, second, other = [
        (await ask(engine, chat(QUESTION, temperature=1, seed=seed, max_tokens=16))).text for seed in (7, 7, 8)
    ]

    assert first == second != other


async def test_concurrent_answers_equal_those_given_alone(engine: Engine) -> None:
    questions = [f"{QUESTION} ({number})" for number in range(2 * MAX_NUM_SEQS)]
    alone = [(await ask(engine, chat(question, max_tokens=8))).text for question in questions]
    together = await asyncio.gather(*(ask(engine, chat(question, max_tokens=8)) for question in questions))

    assert [reply.text for reply in together] == alone


async def test_priorities_change_no_answer(engine: Engine) -> None:
    jobs = [replace(chat(QUESTION), priority=priority) for priority in (20, 10, 0) * 3]
    replies = await asyncio.gather(*(ask(engine, job) for job in jobs))

    assert len({reply.text for reply in replies}) == 1


async def test_chat_logprobs_are_well_formed(engine: Engine) -> None:
    reply = await ask(engine, chat(QUESTION, stream=False, logprobs=True, top_logprobs=2))
    content = reply.objects[0]["choices"][0]["logprobs"]["content"]

    assert len(content) == reply.usage.completion_tokens
    for row in content:
        assert row["logprob"] <= 0
        assert len(row["top_logprobs"]) == 2
        assert bytes(row["bytes"]).decode(errors="replace") == row["token"]


async def test_completion_logprobs_are_well_formed(engine: Engine) -> None:
    reply = await ask(engine, completion("The river", stream=False, logprobs=2))
    logprobs = reply.objects[0]["choices"][0]["logprobs"]

    lengths = {len(logprobs[name]) for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")}
    assert lengths == {reply.usage.completion_tokens}


async def test_json_schema_is_satisfied(engine: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["boat", "raft"]}, "afloat": {"type": "boolean"}},
        "required": ["kind", "afloat"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "thing", "schema": schema, "strict": True}}
    reply = await ask(engine, chat(QUESTION, stream=False, response_format=wanted, max_tokens=60, ignore_eos=False))
    made = json.loads(reply.text)

    assert set(made) == {"kind", "afloat"}
    assert made["kind"] in ("boat", "raft")
    assert isinstance(made["afloat"], bool)


async def test_a_named_tool_is_called_with_valid_arguments(engine: Engine) -> None:
    parameters = {"type": "object", "properties": {"open": {"type": "boolean"}}, "required": ["open"]}
    function = {"name": "set_gate", "parameters": {**parameters, "additionalProperties": False}}
    choice = {"type": "function", "function": {"name": "set_gate"}}
    tools = [{"type": "function", "function": function}]
    fields: dict[str, Any] = {"tools": tools, "tool_choice": choice, "max_tokens": 60, "ignore_eos": False}
    whole = await ask(engine, chat(QUESTION, stream=False, **fields))
    streamed = await ask(engine, chat(QUESTION, **fields))

    (call,) = whole.objects[0]["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "set_gate"
    assert isinstance(json.loads(call["function"]["arguments"])["open"], bool)
    assert json.loads(_streamed_arguments(streamed)) == json.loads(call["function"]["arguments"])


def _streamed_arguments(reply: Reply) -> str:
    calls = [
        call for item in reply.objects for choice in item["choices"] for call in choice["delta"].get("tool_calls") or ()
    ]
    return "".join(call["function"].get("arguments") or "" for call in calls)


# --- refusals -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize("fields", [{}, {"max_tokens": None}])
async def test_over_long_prompt_is_rejected(engine: Engine, make: Any, fields: dict[str, Any]) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await ask(engine, make("river " * 4 * MAX_MODEL_LEN, **fields))

    assert refusal.value.status == 400
    assert refusal.value.error["code"] == "context_length_exceeded"
    assert "maximum context length" in refusal.value.error["message"]


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize("limit", [MAX_MODEL_LEN, MAX_MODEL_LEN + 1, 1_000_000])
async def test_answer_longer_than_the_context_is_rejected(engine: Engine, name: str, limit: int) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await ask(engine, chat(QUESTION, **{"max_tokens": None, name: limit}))

    assert refusal.value.status == 400
    assert (refusal.value.error["code"], refusal.value.error["param"]) == ("context_length_exceeded", "messages")


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": "many"},
        {"n": 0},
        {"stop": 5},
        {"messages": "hello"},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"tool_choice": {"type": "function", "function": {"name": "absent"}}},
        {"response_format": {"type": "unheard-of"}},
    ],
    ids=lambda fields: str(next(iter(fields))),
)
async def test_wrong_field_is_rejected(engine: Engine, fields: dict[str, Any]) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await ask(engine, chat(QUESTION, stream=False, **fields))

    assert 400 <= refusal.value.status < 500
    assert refusal.value.error["message"]


async def test_an_endpoint_that_the_engine_does_not_have_is_rejected(engine: Engine) -> None:
    with pytest.raises(RequestRejected) as refusal:
        await ask(engine, replace(completion(QUESTION, stream=False), endpoint="embeddings"))

    assert refusal.value.status == 400


async def test_neighbours_do_not_notice_a_rejected_request(engine: Engine) -> None:
    expected = (await ask(engine, chat(QUESTION))).text
    bad = chat("river " * 4 * MAX_MODEL_LEN)
    results = await asyncio.gather(
        *(ask(engine, job) for job in (chat(QUESTION), bad, chat(QUESTION))), return_exceptions=True
    )

    assert isinstance(results[1], RequestRejected)
    assert [reply.text for reply in results if isinstance(reply, Reply)] == [expected, expected]


# --- room and abort -----------------------------------------------------------------------------------------------


async def test_an_idle_engine_has_all_its_room(engine: Engine) -> None:
    await ask(engine, chat(QUESTION))

    assert await until_idle(engine)
    assert engine.room().max_num_seqs == MAX_NUM_SEQS


async def test_a_running_job_takes_room(engine: Engine) -> None:
    async with aclosing(opened(engine, chat(QUESTION, max_tokens=400))) as frames:
        await anext(frames)
        room = engine.room()

    assert room.free_seqs == MAX_NUM_SEQS - 1
    assert room.free_kv_blocks < room.kv_blocks


async def test_room_tells_the_size_of_blocks_and_the_pace(engine: Engine) -> None:
    await ask(engine, chat(QUESTION, max_tokens=30))
    room = engine.room()

    assert room.block_tokens > 1
    assert room.kv_blocks * room.block_tokens >= MAX_MODEL_LEN
    assert room.step_ms > 0
    assert room.preemptions >= 0


async def counts_at_rest(engine: Engine) -> tuple[int, int, int]:
    """Tokens of prompts, cached ones of them, and of answers that the engine has counted, once nothing runs."""
    assert await until_idle(engine)
    seen = None
    for _ in range(STEPS):  # an engine may count a step after it has told of it
        room = engine.room()
        counts = (room.prompt_tokens, room.cached_tokens, room.generated_tokens)
        if counts == seen:
            break
        seen = counts
        await asyncio.sleep(0.2)
    return counts


async def test_the_engine_itself_counts_what_answers_tell(engine: Engine) -> None:
    before = await counts_at_rest(engine)
    question = " ".join([QUESTION] * 20)  # more than a block of the cache
    replies = [await ask(engine, chat(question, stream=stream, max_tokens=20)) for stream in (True, False)]
    after = await counts_at_rest(engine)

    told = [(one.usage.prompt_tokens, one.usage.cached_tokens, one.usage.completion_tokens) for one in replies]
    assert told[1][1] > 0
    assert [now - then for now, then in zip(after, before, strict=True)] == [
        sum(kind) for kind in zip(*told, strict=True)
    ]


async def test_steps_tell_what_was_computed_in_them(engine: Engine) -> None:
    await counts_at_rest(engine)
    engine.take_steps()
    reply = await ask(engine, chat(QUESTION, max_tokens=20))
    await counts_at_rest(engine)
    steps = engine.take_steps()

    assert sum(step.generated_tokens for step in steps) == reply.usage.completion_tokens
    assert sum(step.prompt_tokens for step in steps) == reply.usage.prompt_tokens
    assert [step.ended_us for step in steps] == sorted(step.ended_us for step in steps)
    assert {step.running for step in steps if step.generated_tokens} == {1}
    assert all(step.duration_us >= 0 and 0 <= step.kv_usage_permille <= 1000 for step in steps)
    assert engine.take_steps() == []
    assert engine.take_launches() == []


@pytest.mark.parametrize("choices", [1, 2])
async def test_closing_a_stream_frees_its_room(engine: Engine, choices: int) -> None:
    job = chat(QUESTION, max_tokens=400, n=choices, temperature=1)
    async with aclosing(opened(engine, job)) as frames:
        await anext(frames)

    assert await until_idle(engine)


@pytest.mark.parametrize("stream", [True, False])
async def test_cancelling_the_task_frees_its_room(engine: Engine, stream: bool) -> None:
    task = asyncio.create_task(ask(engine, chat(QUESTION, stream=stream, max_tokens=400)))
    while engine.room().free_seqs == MAX_NUM_SEQS:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await until_idle(engine)


async def test_cancelling_what_waits_inside_leaves_the_others(engine: Engine) -> None:
    jobs = [chat(QUESTION) for _ in range(MAX_NUM_SEQS)]
    tasks = [asyncio.create_task(ask(engine, job)) for job in (*jobs, chat("And you, who wait?"))]
    await asyncio.sleep(0)
    tasks[-1].cancel()
    replies = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(replies[-1], asyncio.CancelledError)
    assert len({reply.text for reply in replies if isinstance(reply, Reply)}) == 1
    assert await until_idle(engine)


async def test_more_jobs_than_seats_all_finish(engine: Engine) -> None:
    jobs = [chat(f"{number}: {QUESTION}", max_tokens=4) for number in range(3 * MAX_NUM_SEQS)]
    replies = await asyncio.gather(*(ask(engine, job) for job in jobs))

    assert all(reply.finish_reasons[0] for reply in replies)
    assert await until_idle(engine)


# --- prefix cache -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [chat, completion])
async def test_prefixes_are_shared_within_a_salt_only(engine: Engine, make: Any) -> None:
    job: Job = make(f"{make.__name__} " + QUESTION * 12, max_tokens=2)
    first, again, other = [(await ask(engine, with_salt(job, letter))).usage.cached_tokens for letter in "bbc"]

    assert first == other == 0
    assert again > 0


# --- continuation -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "prompt"), [(chat, QUESTION), (completion, "Once upon a time there was a river that")]
)
@pytest.mark.parametrize("taken", [2, 5, 9])
async def test_a_cut_answer_continues_exactly(engine: Engine, make: Any, prompt: str, taken: int) -> None:
    # A model's silent end token cannot be seen in the text that was delivered, so none may be stepped over here.
    whole = await ask(engine, make(prompt, ignore_eos=False))
    cut = Reply(whole.frames[:taken])
    delivered = replace(
        make(prompt, ignore_eos=False),
        delivered_text=cut.text,
        delivered_tokens=cut.usage.completion_tokens,
    )
    rest = await ask(engine, delivered)

    assert cut.text + rest.text == whole.text
    assert rest.finish_reasons == whole.finish_reasons
    assert rest.usage.completion_tokens == whole.usage.completion_tokens
    assert rest.usage.prompt_tokens == whole.usage.prompt_tokens


MANY_BYTES = "你好，世界！🙂🎉 été 你好，世界！🙂🎉 été 你好，世界！🙂🎉 été 你好，世界！"
"""Both answer it with characters of several bytes: a model repeats the pattern, the simulator is told to."""


@pytest.mark.parametrize("make", [chat, completion])
@pytest.mark.parametrize("fields", [{}, {"stop": ["never said"]}], ids=["plain", "stop string"])
async def test_an_answer_cut_anywhere_continues_exactly(engine: Engine, make: Any, fields: dict[str, Any]) -> None:
    job: Job = make(MANY_BYTES, max_tokens=24, metadata={"sim": "utf8"}, **fields)
    whole = await ask(engine, job)
    cuts = [Reply(whole.frames[:count]) for count in range(len(whole.frames))]
    rests = await asyncio.gather(*(ask(engine, rest_of(job, cut)) for cut in cuts))

    assert not whole.text.isascii()
    assert len(whole.token_ids) == whole.usage.completion_tokens == 24
    for cut, rest in zip(cuts, rests, strict=True):
        assert (cut.text if cut.frames else "") + rest.text == whole.text
        assert cut.token_ids + rest.token_ids == whole.token_ids
        assert rest.finish_reasons == whole.finish_reasons
        assert rest.usage == replace(whole.usage, cached_tokens=rest.usage.cached_tokens)


async def test_each_frame_brings_the_tokens_that_its_usage_counts(engine: Engine) -> None:
    for job in (chat(QUESTION), completion(QUESTION), chat(QUESTION, stop=["never said"])):
        produced = 0
        async for frame in opened(engine, job):
            produced += len(frame.token_ids)
            assert produced == frame.usage.completion_tokens
        assert produced == 12


async def test_token_ids_of_another_answer_are_not_gone_on_from(engine: Engine) -> None:
    whole = await ask(engine, chat(QUESTION))
    cut = Reply(whole.frames[:6])
    for wrong in ((2**32 - 1,) * len(cut.token_ids), cut.token_ids[:-1], (*cut.token_ids[:-1], 0)):
        rest = await ask(engine, replace(rest_of(chat(QUESTION), cut), delivered_ids=wrong))
        assert cut.text + rest.text == whole.text


async def test_an_echoed_prompt_is_not_repeated_by_what_continues(engine: Engine) -> None:
    job = completion("The river", echo=True)
    whole = await ask(engine, job)
    rest = await ask(engine, rest_of(job, Reply(whole.frames[:5])))

    assert Reply(whole.frames[:5]).text + rest.text == whole.text
    assert whole.text.startswith("The river")


# --- life of the engine -------------------------------------------------------------------------------------------


async def test_probe_passes_alone_and_beside_load(engine: Engine) -> None:
    await engine.probe()
    await asyncio.gather(engine.probe(), *(ask(engine, chat(QUESTION)) for _ in range(MAX_NUM_SEQS)))


async def test_a_stopped_engine_is_dead_and_starts_again(engine: Engine) -> None:
    before = (await ask(engine, chat(QUESTION))).text
    await engine.stop()
    await engine.stop()
    with pytest.raises(EngineDead):
        await ask(engine, chat(QUESTION))

    info = await engine.start()

    assert (await ask(engine, chat(QUESTION))).text == before
    assert info.max_num_seqs == MAX_NUM_SEQS
    assert info.max_model_len == MAX_MODEL_LEN
    assert info.kv_tokens == engine.room().kv_blocks * engine.room().block_tokens
    assert info.endpoints == ("chat", "completions")
    assert len(info.version.rsplit("-", 1)[1]) == 12
    await engine.probe()
    assert await until_idle(engine)


async def test_stopping_ends_jobs_under_way_with_engine_dead(engine: Engine) -> None:
    frames = opened(engine, chat(QUESTION, max_tokens=400))
    await anext(frames)
    rest = asyncio.create_task(_drain(frames))
    await engine.stop()
    with pytest.raises(EngineDead):
        await rest
    await engine.start()


async def _drain(frames: Any) -> None:
    async for _ in frames:
        pass
