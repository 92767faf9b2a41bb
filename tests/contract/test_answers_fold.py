"""What an engine streams, made whole, is what it answers without a stream; made a stream, that says the same again."""

import json
from typing import Any

import pytest
from engine_client import ask, chat, completion

from gateway.fold import check_whole, fold, unfold
from workers.engines.port import Engine, Job

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "Name three things that float on a river."
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo"]}}, "required": ["city"]},
    },
}
CALL = {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "weather"}}, "max_tokens": 60}
TWO = {"n": 2, "temperature": 1, "seed": 7}
ASKED = [
    pytest.param(chat, QUESTION, {}, id="chat"),
    pytest.param(chat, QUESTION, {"stream_options": {"include_usage": True}}, id="chat with usage"),
    pytest.param(chat, QUESTION, TWO, id="two choices"),
    pytest.param(chat, QUESTION, {"logprobs": True, "top_logprobs": 2}, id="chat with logprobs"),
    pytest.param(chat, QUESTION, {**CALL, "ignore_eos": False}, id="tool call"),
    pytest.param(completion, QUESTION, {}, id="completion"),
    pytest.param(completion, [QUESTION, "One, two,"], TWO, id="two prompts, two choices"),
    pytest.param(completion, QUESTION, {"logprobs": 1}, id="completion with logprobs"),
]
ECHO = pytest.param(completion, QUESTION, {"echo": True}, id="echo")
"""vLLM streams it with the prompt's token ids, which have no place in a whole answer: such a stream is not kept."""


def nameless(answer: dict[str, Any], job: Job) -> dict[str, Any]:
    """The answer without what differs between two requests: ids, time, and what the prefix cache held."""
    text = json.dumps(answer).replace(job.request_id.replace("-", ""), "").replace(job.request_id, "")
    plain: dict[str, Any] = json.loads(text)
    del plain["created"], plain["usage"]["prompt_tokens_details"]
    for choice in plain["choices"]:
        message = choice.get("message", {})
        for call in message.get("tool_calls") or ():
            call["id"] = call["id"] is not None
            message["content"] = message["content"] or None  # vLLM's whole answer has an empty text beside a call
    return plain


@pytest.mark.parametrize(("make", "prompt", "fields"), ASKED)
async def test_a_stream_made_whole_is_the_answer_without_a_stream(
    engine: Engine, make: Any, prompt: Any, fields: dict[str, Any]
) -> None:
    job = make(prompt, **fields)
    streamed = await ask(engine, job)
    unary = make(prompt, stream=False, **{name: value for name, value in fields.items() if name != "stream_options"})
    whole = await ask(engine, unary)

    folded = fold([frame.data for frame in streamed.frames], streamed.usage)

    assert nameless(folded, job) == nameless(check_whole(whole.frames[0].data, whole.usage), unary)


@pytest.mark.parametrize(("make", "prompt", "fields"), [*ASKED, ECHO])
@pytest.mark.parametrize("include_usage", [True, False])
async def test_a_whole_answer_made_a_stream_says_the_same(
    engine: Engine, make: Any, prompt: Any, fields: dict[str, Any], include_usage: bool
) -> None:
    fields = {name: value for name, value in fields.items() if name != "stream_options"}
    job = make(prompt, stream=False, **fields)
    reply = await ask(engine, job)
    whole = check_whole(reply.frames[0].data, reply.usage)

    again = fold(unfold(whole, include_usage=include_usage), reply.usage)

    assert nameless(again, job) == nameless(whole, job)
