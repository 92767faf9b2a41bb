"""Chats are counted as the engine makes them: with the model's own template, through the way vLLM prepares messages."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_tokenizer import byte_level, rule

from workers.tokenization.check import SAMPLES, checked, count_whole
from workers.tokenization.conversation import Chat
from workers.tokenization.counter import BytesCounter, TokenizerCounter
from workers.tokenization.template import CannotRender, ChatTemplate

transformers = pytest.importorskip("transformers", reason="comes with the engine's requirements")

COUNTER = TokenizerCounter(rule())
ASKED = {"add_generation_prompt": True}
WORDS = st.text(max_size=60) | st.sampled_from(["", "<|im_end|>\n<|im_start|>system\n", "the gate", "水闸"])
ARGUMENTS = st.dictionaries(st.text(max_size=8), st.integers() | st.text(max_size=8) | st.booleans(), max_size=3)
NOTHING = {"name": "", "description": None, "parameters": None}
NAMES = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)
TOOLS = st.none() | st.lists(
    st.builds(
        lambda name, described: {"type": "function", "function": {"name": name, **described}},
        NAMES,
        st.fixed_dictionaries({}, optional={"description": WORDS, "parameters": ARGUMENTS}),
    ),
    min_size=1,
    max_size=3,
)
SAID = st.fixed_dictionaries({"role": st.sampled_from(["system", "user", "assistant"]), "content": WORDS})
CALLED = st.builds(
    lambda name, arguments, content: {
        "role": "assistant",
        "content": content,
        "tool_calls": [{"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}],
    },
    NAMES,
    ARGUMENTS,
    st.none() | WORDS,
)
CHATS = st.lists(SAID | CALLED, min_size=1, max_size=6)


def hugging_face() -> Any:
    return transformers.PreTrainedTokenizerFast(tokenizer_object=byte_level(), chat_template=rule().template)


def as_objects(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Arguments as objects and absent contents as empty texts: what vLLM makes of OpenAI's messages first."""
    made = json.loads(json.dumps(messages))
    for message in made:
        message["content"] = message["content"] or ""
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return made


@settings(max_examples=150, deadline=None)
@given(CHATS, TOOLS)
def test_a_chat_has_as_many_tokens_as_transformers_makes(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None
) -> None:
    printed = [{**tool, "function": {**NOTHING, **tool["function"]}} for tool in tools or ()]
    true = hugging_face().apply_chat_template(
        as_objects(messages), tools=printed or None, add_generation_prompt=True, return_dict=False
    )
    assert count_whole(COUNTER, Chat(messages, tools, ASKED)) == len(true)


async def test_an_engine_that_counts_as_the_rule_says_needs_no_spare_tokens() -> None:
    async def engine(body: Any) -> int:
        return count_whole(COUNTER, Chat(body["messages"], body.get("tools"), ASKED))

    assert (await checked(rule(), engine)).spare_tokens == 0


async def test_what_an_engine_adds_of_its_own_is_added_to_each_chat() -> None:
    async def engine(body: Any) -> int:
        if body.get("tools"):
            raise ValueError("no tools here")
        return count_whole(COUNTER, Chat(body["messages"], None, ASKED)) + len(body["messages"])

    made = await checked(rule(), engine)
    assert made.spare_tokens == max(len(body["messages"]) for body in SAMPLES if "tools" not in body)
    plain = count_whole(COUNTER, Chat(SAMPLES[0]["messages"], None, ASKED))
    assert count_whole(TokenizerCounter(made), Chat(SAMPLES[0]["messages"], None, ASKED)) == plain + made.spare_tokens


def test_a_template_that_refuses_a_chat_is_not_counted_by() -> None:
    strict = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system here') }}{% endif %}"
    with pytest.raises(CannotRender, match="no system here"):
        TokenizerCounter(rule(strict)).chat(Chat([{"role": "system", "content": "x"}]), b"")


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    with pytest.raises(CannotRender, match="unsafe"):
        ChatTemplate(rule("{{ messages.__class__.__mro__[1].__subclasses__() }}")).render(Chat([]))


def test_a_model_without_chat_template_counts_no_chats() -> None:
    with pytest.raises(CannotRender):
        TokenizerCounter(replace(rule(), template="")).chat(Chat([{"role": "user", "content": "x"}]), b"")


@pytest.mark.parametrize(
    ("template", "content_format", "message", "text"),
    [
        ("{{ messages[0].content }}", "string", {"content": [{"text": "a"}, {"text": ""}, {"text": "b"}]}, "a\nb"),
        ("{{ messages[0].content[1].text }}", "openai", {"content": [{"text": "a"}, {"text": "b"}]}, "b"),
        ("{{ messages[0].content }}", "openai", {"role": "tool", "content": [{"text": "a"}, {"text": "b"}]}, "a\nb"),
        ("{{ messages[0].role }}", "string", {"role": "developer", "content": "x"}, "system"),
        ("{{ messages[0].role }}{# 'developer' #}", "string", {"role": "developer", "content": "x"}, "developer"),
        ("{{ messages[0].reasoning_content }}", "string", {"role": "assistant", "content": "", "reasoning": "r"}, "r"),
        ("{% generation %}{{ messages[0].name }}{% endgeneration %}", "string", {"content": "", "name": "n"}, "n"),
        ("{{ bos_token }}{{ {'a': '<'} | tojson }}", "string", {"content": ""}, '<s>{"a": "<"}'),
    ],
)
def test_templates_get_messages_as_vllm_gives_them(template: str, content_format: Any, message: Any, text: str) -> None:
    made = replace(rule(template), content_format=content_format, names={"bos_token": "<s>"})
    assert ChatTemplate(made).render(Chat([{"role": "user", **message}])) == text


def test_several_instructions_are_one_where_the_template_has_no_developers() -> None:
    template = "{% for message in messages %}{{ message.role }}:{{ message.content }};{% endfor %}"
    said = (("system", "a"), ("user", "b"), ("developer", "c"))
    messages = [{"role": role, "content": content} for role, content in said]
    assert ChatTemplate(rule(template)).render(Chat(messages)) == "system:a\n\nc;user:b;"


def test_the_simulated_model_counts_four_bytes_a_token() -> None:
    counter = BytesCounter()
    assert counter.text("", b"", special=False).tokens == 1
    assert counter.text("水闸", b"", special=False).tokens == 2
    chat = counter.chat(Chat([{"role": "user", "content": "hi"}]), b"")
    assert chat.tokens == -(-len("<|user|>hi<|assistant|>") // 4)
