"""What the unmodified official client gets, on the simulator and on the real engine: the same as from OpenAI."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, LengthFinishReasonError, OpenAI
from openai.types.chat import ChatCompletionChunk
from pydantic import BaseModel

from tests.stack import Stack, wait_until

pytestmark = pytest.mark.timeout(400)

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
STREAMS = 32
TOKENS = 6
"""Fewer than either engine's whole answer to the question, so that every answer is cut at the same length."""
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": TOKENS}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Current weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["celsius", "fahrenheit"]}},
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}


class Capital(BaseModel):
    """A structured answer, short for any model."""

    country: str
    is_capital: bool


@pytest.fixture
def client(product: Stack) -> Iterator[OpenAI]:
    with product.client() as client:
        yield client


@pytest.fixture
async def async_client(product: Stack) -> AsyncIterator[AsyncOpenAI]:
    async with product.async_client() as client:
        yield client


@pytest.fixture
def chat(client: OpenAI, model: str) -> Callable[..., Any]:
    """Ask the question, greedily and briefly unless told otherwise."""

    def ask(**options: Any) -> Any:
        return client.chat.completions.create(**{"model": model, "messages": QUESTION, **GREEDY, **options})

    return ask


@pytest.fixture
def complete(client: OpenAI, model: str) -> Callable[..., Any]:
    """Continue a text, greedily and briefly unless told otherwise."""

    def ask(**options: Any) -> Any:
        return client.completions.create(**{"model": model, "prompt": "Once upon a time", **GREEDY, **options})

    return ask


def text_of(chunks: list[ChatCompletionChunk], index: int = 0) -> str:
    pieces = [choice.delta.content for chunk in chunks for choice in chunk.choices if choice.index == index]
    return "".join(piece or "" for piece in pieces)


# --- models ---------------------------------------------------------------------------------------------------------


def test_models_are_listed_and_described(client: OpenAI, model: str) -> None:
    listed = client.models.list().data
    assert model in [entry.id for entry in listed]
    one = client.models.retrieve(model)
    assert (one.id, one.object) == (model, "model")
    assert one.created > 0
    assert one.owned_by


# --- whole answers --------------------------------------------------------------------------------------------------


def test_a_chat_is_answered_in_openais_shape(chat: Callable[..., Any], model: str) -> None:
    answer = chat()
    assert (answer.object, answer.model) == ("chat.completion", model)
    assert answer.id.startswith("chatcmpl-")
    choice = answer.choices[0]
    assert (choice.index, choice.message.role, choice.finish_reason) == (0, "assistant", "length")
    assert choice.message.content
    assert answer.usage.completion_tokens == TOKENS
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + TOKENS


@pytest.mark.vllm
def test_the_real_model_knows_the_capital(real: Stack) -> None:
    with real.client() as client:
        model = client.models.list().data[0].id
        answer = client.chat.completions.create(model=model, messages=QUESTION, temperature=0, max_tokens=24)
    assert "Paris" in (answer.choices[0].message.content or "")


def test_a_text_is_continued_in_openais_shape(complete: Callable[..., Any], model: str) -> None:
    answer = complete()
    assert (answer.object, answer.model) == ("text_completion", model)
    assert answer.id.startswith("cmpl-")
    assert answer.choices[0].text
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage.completion_tokens == TOKENS


def test_a_completion_takes_16_tokens_unless_told_otherwise(client: OpenAI, model: str) -> None:
    answer = client.completions.create(model=model, prompt="Once upon a time", extra_body={"ignore_eos": True})
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 16


def test_several_prompts_are_answered_in_order(complete: Callable[..., Any]) -> None:
    prompts = ["One two three", "The sea is"]
    together = complete(prompt=prompts)
    assert [choice.index for choice in together.choices] == [0, 1]
    assert [choice.text for choice in together.choices] == [complete(prompt=p).choices[0].text for p in prompts]


def test_echo_repeats_the_prompt(complete: Callable[..., Any]) -> None:
    assert complete(echo=True).choices[0].text == "Once upon a time" + complete().choices[0].text


def test_every_role_and_parts_of_text_are_taken(chat: Callable[..., Any]) -> None:
    parts = [{"type": "text", "text": "And of"}, {"type": "text", "text": " Spain?"}]
    system: list[Any] = [{"role": "system", "content": "Be brief."}]
    history: list[Any] = [*QUESTION, {"role": "assistant", "content": "Paris."}, {"role": "user", "content": parts}]
    assert chat(messages=system + history).choices[0].message.content


def test_max_completion_tokens_bounds_like_max_tokens(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.create(model=model, messages=QUESTION, max_completion_tokens=3, temperature=0)
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


# --- choices, stops, seeds, likelihoods -----------------------------------------------------------------------------


def test_n_gives_as_many_choices_and_counts_them_all(chat: Callable[..., Any]) -> None:
    answer = chat(n=2, temperature=1.5, seed=3)
    assert sorted(choice.index for choice in answer.choices) == [0, 1]
    assert answer.choices[0].message.content != answer.choices[1].message.content
    assert answer.usage.completion_tokens == 2 * TOKENS
    assert answer.usage.prompt_tokens == chat().usage.prompt_tokens


@pytest.mark.parametrize("as_list", [False, True], ids=["text", "list"])
def test_an_answer_ends_before_its_stop_text(chat: Callable[..., Any], as_list: bool) -> None:
    whole = chat().choices[0].message.content
    word = whole.split()[2]
    cut = chat(stop=["\u2603", word] if as_list else word).choices[0]
    assert cut.finish_reason == "stop"
    assert cut.message.content == whole[: whole.index(word)]


def test_an_equal_seed_gives_an_equal_answer(chat: Callable[..., Any]) -> None:
    first, second, other = (chat(seed=seed, temperature=1.5).choices[0].message.content for seed in (7, 7, 8))
    assert first == second
    assert first != other


def test_a_chats_likelihoods_cover_the_answer(chat: Callable[..., Any]) -> None:
    answer = chat(logprobs=True, top_logprobs=3)
    tokens = answer.choices[0].logprobs.content
    assert len(tokens) == answer.usage.completion_tokens
    assert b"".join(bytes(token.bytes) for token in tokens).decode() == answer.choices[0].message.content
    for token in tokens:
        best = token.top_logprobs
        assert len(best) == 3
        assert [entry.logprob for entry in best] == sorted((entry.logprob for entry in best), reverse=True)
        assert token.logprob == max(entry.logprob for entry in best) <= 0


def test_a_chat_without_logprobs_has_none(chat: Callable[..., Any]) -> None:
    assert chat().choices[0].logprobs is None


def test_a_completions_likelihoods_cover_the_answer(complete: Callable[..., Any]) -> None:
    choice = complete(logprobs=2).choices[0]
    found = choice.logprobs
    assert "".join(found.tokens) == choice.text
    assert len(found.token_logprobs) == len(found.top_logprobs) == len(found.text_offset) == TOKENS
    assert found.text_offset == sorted(found.text_offset)


def test_a_bias_is_taken(chat: Callable[..., Any]) -> None:
    assert chat(logit_bias={"50": -100, "17": 5}, presence_penalty=1, frequency_penalty=-1, top_p=0.5, user="u").choices


# --- streams --------------------------------------------------------------------------------------------------------


def test_a_stream_spells_the_whole_answer(chat: Callable[..., Any]) -> None:
    chunks = list(chat(stream=True))
    assert text_of(chunks) == chat().choices[0].message.content
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks] == [None] * (len(chunks) - 1) + ["length"]
    assert {(c.object, c.id, c.created, c.model) for c in chunks} == {
        ("chat.completion.chunk", chunks[0].id, chunks[0].created, chunks[0].model)
    }


def test_a_completions_stream_spells_the_whole_answer(complete: Callable[..., Any]) -> None:
    chunks = list(complete(stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == complete().choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"


def test_a_stream_of_two_choices_spells_both(chat: Callable[..., Any]) -> None:
    options = {"n": 2, "temperature": 1.5, "seed": 3}
    chunks = list(chat(stream=True, **options))
    whole = {choice.index: choice.message.content for choice in chat(**options).choices}
    assert {index: text_of(chunks, index) for index in (0, 1)} == whole
    assert sorted(c.index for chunk in chunks for c in chunk.choices if c.finish_reason) == [0, 1]


def test_a_streams_likelihoods_cover_the_answer(chat: Callable[..., Any]) -> None:
    chunks = list(chat(stream=True, logprobs=True))
    found = [c.logprobs.content for chunk in chunks for c in chunk.choices if c.logprobs and c.logprobs.content]
    assert "".join(token.token for tokens in found for token in tokens) == text_of(chunks)


def test_a_stream_that_asked_for_usage_ends_with_it(chat: Callable[..., Any]) -> None:
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage == chat().usage.model_copy(
        update={"prompt_tokens_details": chunks[-1].usage.prompt_tokens_details}
    )


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": False}}], ids=["silent", "refused"])
def test_a_stream_that_did_not_ask_for_usage_has_none(chat: Callable[..., Any], options: dict[str, Any]) -> None:
    chunks = list(chat(stream=True, **options))
    assert all(chunk.usage is None and chunk.choices for chunk in chunks)


def test_a_completions_stream_ends_with_usage_if_asked(complete: Callable[..., Any]) -> None:
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == TOKENS


def test_stream_options_without_a_stream_are_refused(chat: Callable[..., Any]) -> None:
    with pytest.raises(BadRequestError) as refused:
        chat(stream_options={"include_usage": True})
    assert refused.value.param == "stream_options"


def test_the_clients_own_accumulator_follows_a_stream(client: OpenAI, chat: Callable[..., Any], model: str) -> None:
    with client.chat.completions.stream(model=model, messages=QUESTION, **GREEDY) as stream:
        kinds = {event.type for event in stream}
        with pytest.raises(LengthFinishReasonError):
            stream.get_final_completion()
    assert {"chunk", "content.delta"} <= kinds


# --- tools ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "choice",
    ["required", {"type": "function", "function": {"name": "get_weather"}}],
    ids=["required", "named"],
)
def test_a_tool_goes_round(chat: Callable[..., Any], choice: Any) -> None:
    ask: list[Any] = [{"role": "user", "content": "What is the weather in Paris in celsius?"}]
    called = chat(messages=ask, tools=[WEATHER], tool_choice=choice, max_tokens=64).choices[0]
    assert called.finish_reason == ("tool_calls" if choice == "required" else "stop")
    (call,) = called.message.tool_calls
    assert (call.type, call.function.name) == ("function", "get_weather")
    assert set(json.loads(call.function.arguments)) == {"city", "unit"}
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21}'}
    told = chat(messages=[*ask, called.message, result], tools=[WEATHER], tool_choice="none").choices[0].message
    assert told.content
    assert not told.tool_calls


def test_a_streamed_tool_call_is_the_whole_one(chat: Callable[..., Any]) -> None:
    options = {"tools": [WEATHER], "tool_choice": "required", "max_tokens": 64}
    chunks = list(chat(stream=True, **options))
    calls = [call for chunk in chunks for c in chunk.choices for call in c.delta.tool_calls or ()]
    whole = chat(**options).choices[0].message.tool_calls[0].function
    assert calls[0].id
    assert calls[0].function.name == whole.name
    assert json.loads("".join(call.function.arguments or "" for call in calls)) == json.loads(whole.arguments)
    assert chunks[-1].choices[0].finish_reason == "tool_calls"


def test_tools_left_to_the_model_still_give_an_answer(chat: Callable[..., Any]) -> None:
    message = chat(tools=[WEATHER], tool_choice="auto").choices[0].message
    assert message.content or message.tool_calls


# --- structured output ----------------------------------------------------------------------------------------------


def test_a_schema_from_a_class_is_obeyed(client: OpenAI, model: str) -> None:
    answer = client.chat.completions.parse(
        model=model, messages=QUESTION, response_format=Capital, temperature=0, max_tokens=200
    )
    assert isinstance(answer.choices[0].message.parsed, Capital)


def test_a_streamed_schema_is_obeyed(client: OpenAI, model: str) -> None:
    with client.chat.completions.stream(
        model=model, messages=QUESTION, response_format=Capital, temperature=0, max_tokens=200
    ) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Capital)


def test_a_strict_schema_is_obeyed(chat: Callable[..., Any]) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2, 3]}}, "required": ["n"]}
    wanted = {"type": "json_schema", "json_schema": {"name": "number", "strict": True, "schema": schema}}
    assert json.loads(chat(response_format=wanted, max_tokens=64).choices[0].message.content)["n"] in (1, 2, 3)


# --- classes, headers, many at once ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tier", "qos_class", "used"),
    [
        ("priority", "p0", "priority"),
        ("default", "p1", "default"),
        ("auto", "p1", "default"),
        ("flex", "p2", "flex"),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_service_tier_chooses_the_class_and_is_told_back(
    product: Stack, client: OpenAI, model: str, tier: Any, qos_class: str, used: str, stream: bool
) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model=model, messages=QUESTION, service_tier=tier, stream=stream, max_tokens=3
    )
    answers: list[Any] = list(raw.parse()) if stream else [raw.parse()]
    assert {answer.service_tier for answer in answers} == {used}
    _wait_for_row(product, raw.headers["x-request-id"], ("qos_class",), (qos_class,))


def test_a_tier_beyond_the_plan_is_served_at_the_plans_own(product: Stack, model: str) -> None:
    keys = product.add_tenants({"core-business": {"best_class": "p1"}})
    with product.client(api_key=keys["core-business"]) as client:
        answer = client.chat.completions.create(model=model, messages=QUESTION, service_tier="priority", max_tokens=1)
    assert answer.service_tier == "default"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_answer_carries_openais_headers(product: Stack, client: OpenAI, model: str, stream: bool) -> None:
    raw = client.chat.completions.with_raw_response.create(model=model, messages=QUESTION, stream=stream, **GREEDY)
    answers: list[Any] = list(raw.parse()) if stream else [raw.parse()]
    answer, headers = answers[0], raw.headers
    assert headers["content-type"] == ("text/event-stream; charset=utf-8" if stream else "application/json")
    assert int(headers["openai-processing-ms"]) >= 0
    assert headers["openai-version"] == "2020-10-01"
    for kind in ("requests", "tokens"):
        assert 0 <= int(headers[f"x-ratelimit-remaining-{kind}"]) < int(headers[f"x-ratelimit-limit-{kind}"])
        assert headers[f"x-ratelimit-reset-{kind}"].endswith("s")
    assert answer.id == f"chatcmpl-{headers['x-request-id']}"
    _wait_for_row(product, headers["x-request-id"], ("outcome", "completion_tokens"), ("completed", TOKENS))


def test_the_client_finds_the_request_id(chat: Callable[..., Any]) -> None:
    answer = chat()
    assert answer.id == f"chatcmpl-{answer._request_id}"


async def test_many_streams_at_once_answer_as_each_alone(async_client: AsyncOpenAI, model: str) -> None:
    async def spell(number: int) -> tuple[str, int]:
        chunks = [
            chunk
            async for chunk in await async_client.chat.completions.create(
                model=model,
                messages=[{"role": "user", "content": f"Tell me about the number {number}."}],
                stream=True,
                stream_options={"include_usage": True},
                **GREEDY,
            )
        ]
        assert chunks[-1].usage is not None
        return text_of(chunks), chunks[-1].usage.completion_tokens

    together = await asyncio.gather(*(spell(number) for number in range(STREAMS)))
    assert {tokens for _, tokens in together} <= set(range(1, TOKENS + 1))
    for number in (0, 13, STREAMS - 1):
        assert together[number] == await spell(number)


def _wait_for_row(product: Stack, request_id: str, columns: tuple[str, ...], expected: tuple[Any, ...]) -> None:
    """Settlement comes after the answer: wait for the usage row of the request, then compare it."""

    def find() -> Any:
        rows = product.usage_rows(", ".join(("request_id", *columns)))
        return next((row for row in rows if row[0] == request_id), None)

    assert wait_until(find, 20, f"no usage row for {request_id}")[1:] == expected
