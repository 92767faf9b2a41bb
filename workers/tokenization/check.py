"""Whether a rule counts what the engine itself makes of the same chats: tried at start, on chats of every kind."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from tracing import logs
from workers.tokenization.conversation import Chat
from workers.tokenization.counter import Counter, make_counter
from workers.tokenization.rule import Tokenization
from workers.tokenization.template import CannotRender

log = logs.get(__name__)

Body = Mapping[str, Any]

_HELLO = {"role": "user", "content": "Hello, which sluice is it?"}
_RULES = {"role": "system", "content": "You answer in one sentence."}
_ANSWER = {"role": "assistant", "content": "The lower one, at 19:30."}
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_level",
        "description": "The water's level",
        "parameters": {"type": "object", "properties": {"gate": {"type": "string"}}, "required": ["gate"]},
    },
}
_CALL = {"id": "call_0001", "type": "function", "function": {"name": "get_level", "arguments": '{"gate": "lower"}'}}
_CALLED = {"role": "assistant", "content": None, "tool_calls": [_CALL]}
_TOLD = {"role": "tool", "tool_call_id": "call_0001", "content": "2.31 m"}

SAMPLES: tuple[Body, ...] = (
    {"messages": [_HELLO]},
    {"messages": [_RULES, _HELLO]},
    {"messages": [_HELLO, _ANSWER, {"role": "user", "content": [{"type": "text", "text": "水位\n\n 多少? 🌊"}]}]},
    {"messages": [_RULES, _HELLO, _ANSWER, _HELLO, _ANSWER, _HELLO]},
    {"messages": [_HELLO], "tools": [_TOOL]},
    {"messages": [_RULES, _HELLO, _CALLED, _TOLD], "tools": [_TOOL]},
)
"""Bodies of chats, as clients send them."""


async def checked(rule: Tokenization, engine_counts: Callable[[Body], Awaitable[int]]) -> Tokenization:
    """The rule with as many spare tokens as it takes to count no sample for less than the engine does.

    ``engine_counts`` is the engine's own way from a body to the number of its prompt's tokens. A sample that either of
    the two refuses says nothing: many models take no tools.
    """
    counter = make_counter(rule)
    missing = 0
    for body in SAMPLES:
        try:
            counted, true = count_whole(counter, _chat(body)), await engine_counts(body)
        except CannotRender:
            continue
        except Exception as error:
            log.info("sample_refused", error=str(error)[:200])
            continue
        if counted != true:
            log.warning("prompt_count_differs", counted=counted, engine=true, messages=len(body["messages"]))
        missing = max(missing, true - counted)
    return replace(rule, spare_tokens=missing)


def count_whole(counter: Counter, chat: Chat) -> int:
    """Count a chat to its end.

    Raises:
        CannotRender: the model does not take it.
    """
    count = counter.chat(chat, b"")
    while count.open:
        counter.encode_piece(count)
    return count.tokens


def _chat(body: Body) -> Chat:
    return Chat(body["messages"], body.get("tools"), {"add_generation_prompt": True})
