from typing import Any

import pytest
from bodies import MESSAGES, TOOL, chat, refused_chat

ASSISTANT_CALL = {"id": "c1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


def test_a_plain_chat_is_reduced_to_what_admission_decides_on() -> None:
    ask = chat(stream=True, stream_options={"include_usage": True}, max_tokens=5, n=3, service_tier="flex")

    assert (ask.endpoint, ask.model, ask.stream, ask.include_usage) == ("chat", "m", True, True)
    assert (ask.max_tokens, ask.choices, ask.service_tier, ask.prompt_bytes) == (5, 3, "flex", 2)


@pytest.mark.parametrize(
    ("fields", "include"),
    [
        ({"stream": True}, False),
        ({"stream": True, "stream_options": None}, False),
        ({"stream": True, "stream_options": {}}, False),
        ({"stream": True, "stream_options": {"include_usage": False}}, False),
        ({"stream": True, "stream_options": {"include_usage": True}}, True),
    ],
)
def test_usage_is_included_only_when_asked_for(fields: dict[str, Any], include: bool) -> None:
    assert chat(**fields).include_usage is include


@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_either_name_bounds_the_tokens(field: str) -> None:
    assert chat(**{field: 7}).max_tokens == 7


@pytest.mark.parametrize(
    "field",
    ["max_tokens", "max_completion_tokens", "n", "temperature", "top_p", "stop", "stream", "tools", "tool_choice",
     "response_format", "seed", "logit_bias", "service_tier", "metadata", "functions", "function_call", "audio",
     "modalities", "web_search_options", "logprobs", "top_logprobs", "stream_options", "user", "store"],
)  # fmt: skip
def test_null_means_left_out(field: str) -> None:
    if field == "user":
        assert chat(user=None) == chat()
    assert chat(**{field: None}) == chat()


@pytest.mark.parametrize(
    ("tier", "known"), [("auto", "auto"), ("default", "default"), ("scale", "default"), ("fast", "priority")]
)
def test_every_tier_is_told_by_a_name_that_the_classes_know(tier: str, known: str) -> None:
    assert chat(service_tier=tier).service_tier == known


@pytest.mark.parametrize(
    "message",
    [
        {"role": "system", "content": "x"},
        {"role": "developer", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "", "name": "ann"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        {"role": "assistant", "content": None, "tool_calls": [ASSISTANT_CALL]},
        {"role": "assistant", "tool_calls": [ASSISTANT_CALL]},
        {"role": "assistant", "content": "x", "tool_calls": None, "function_call": None, "refusal": None,
         "annotations": [{"type": "url_citation"}], "audio": None},
        {"role": "tool", "content": "42", "tool_call_id": "c1"},
        {"role": "function", "content": None, "name": "look_up"},
    ],
)  # fmt: skip
def test_every_kind_of_message_is_accepted(message: dict[str, Any]) -> None:
    assert chat(messages=[message]).endpoint == "chat"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "wizard", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "user", "content": []}, "messages[0].content"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "assistant", "content": None}, "messages[0].content"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "messages[0].content"),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}}, "messages[0].audio"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "user", "content": "x", "colour": 1}, "messages[0].colour"),
        ({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y"}}]},
         "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"type": "file", "file": {}}]}, "messages[0].content[0].type"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type"),
        ("hi", "messages[0]"),
    ],
)  # fmt: skip
def test_a_wrong_message_is_refused_with_its_place(message: Any, param: str) -> None:
    assert refused_chat(messages=[message]).param == param


def test_the_place_is_that_of_the_message_at_fault() -> None:
    assert refused_chat(messages=[*MESSAGES, {"role": "wizard", "content": "x"}]).param == "messages[1].role"


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": []}, {"messages": None}, {"messages": "hi"}, {"model": ""}, {"model": None}, {"model": 5},
        {"model": "x" * 257},
        {"max_tokens": 0}, {"max_tokens": -1}, {"max_tokens": 10**12}, {"max_tokens": 1e12}, {"max_tokens": "5"},
        {"max_tokens": True}, {"max_completion_tokens": 0},
        {"n": 0}, {"n": 129}, {"n": 1000}, {"n": 1.5},
        {"temperature": -0.1}, {"temperature": 2.1}, {"temperature": 999999.0}, {"temperature": "hot"},
        {"top_p": -1}, {"top_p": 0}, {"top_p": 1.1}, {"top_k": 0.01}, {"top_k": -2}, {"min_p": 2},
        {"frequency_penalty": 2.1}, {"presence_penalty": -2.1}, {"repetition_penalty": 0},
        {"logit_bias": {"a": 1}}, {"logit_bias": {"1": 101}}, {"logit_bias": {"-1": 1}}, {"logit_bias": [1]},
        {"stop": ["a", "b", "c", "d", "e"]}, {"stop": ""}, {"stop": [""]}, {"stop": 5},
        {"seed": 2**63}, {"seed": 0.5}, {"service_tier": "gold"},
        {"metadata": {"a": 1}}, {"metadata": {"a": "x" * 513}}, {"metadata": {str(i): "" for i in range(17)}},
        {"response_format": {"type": "xml"}}, {"response_format": {"type": "json_schema"}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b", "schema": {}}}},
        {"top_logprobs": 21, "logprobs": True}, {"top_logprobs": -1, "logprobs": True},
        {"tools": []}, {"tools": [{"type": "custom", "custom": {"name": "x"}}]},
        {"tools": [{"type": "function", "function": {"name": "a b"}}]},
        {"tools": [{"type": "function", "function": {"name": "x" * 65}}]},
        {"tools": [{"type": "function", "function": {"name": "x", "parameters": []}}]},
        {"tools": [TOOL], "tool_choice": "always"},
        {"user": 5}, {"reasoning_effort": "enormous"}, {"stop_token_ids": [-1]},
    ],
)  # fmt: skip
def test_a_value_out_of_bounds_is_refused_with_its_field(fields: dict[str, Any]) -> None:
    error = refused_chat(**fields)

    assert error.param is not None
    assert error.param.split(".")[0].split("[")[0] in fields
    assert error.code


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": False, "stream_options": {}}, "stream_options"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"max_tokens": 5, "max_completion_tokens": 5}, "max_tokens"),
        ({"max_tokens": 5, "min_tokens": 6}, "min_tokens"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "other"}}},
         "tool_choice.function.name"),
        ({"continue_final_message": True}, "continue_final_message"),
        ({"structured_outputs": {}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs"),
        ({"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}}, "structured_outputs"),
    ],
)  # fmt: skip
def test_fields_that_do_not_go_together_are_refused(fields: dict[str, Any], param: str) -> None:
    assert refused_chat(**fields).param == param


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"modalities": ["text", "audio"], "audio": {"format": "wav", "voice": "alloy"}}, "modalities"),
        ({"web_search_options": {}}, "web_search_options"),
        ({"moderation": {"model": "x"}}, "moderation"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"function_call": "auto"}, "function_call"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(fields: dict[str, Any], param: str) -> None:
    error = refused_chat(**fields)

    assert (error.param, error.code) == (param, "unsupported_parameter")


@pytest.mark.parametrize(
    "fields",
    [
        {"user": "u", "safety_identifier": "s", "store": True, "metadata": {"a": "b"}, "verbosity": "low"},
        {"prompt_cache_key": "k", "prompt_cache_retention": "24h", "prompt_cache_options": {"mode": "implicit"}},
        {"prediction": {"type": "content", "content": "x"}, "modalities": ["text"], "function_call": "none"},
        {"audio": {"format": "wav", "voice": "alloy"}},
        {"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "look_up"}}},
        {"tools": [TOOL], "tool_choice": "required", "parallel_tool_calls": False},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": True}}},
        {"logprobs": True, "top_logprobs": 20, "logit_bias": {"50": -100, "7": 0.5}, "stop": ["a", "b", "c", "d"]},
        {"top_k": -1, "min_p": 0.1, "repetition_penalty": 1.1, "ignore_eos": True, "min_tokens": 3},
        {"structured_outputs": {"choice": ["yes", "no"]}, "chat_template_kwargs": {"enable_thinking": False}},
        {"temperature": 0, "top_p": 1, "seed": -1, "reasoning_effort": "low", "max_tokens": 2**31 - 1},
    ],
)  # fmt: skip
def test_every_field_that_is_honoured_or_harmless_is_accepted(fields: dict[str, Any]) -> None:
    assert chat(**fields).endpoint == "chat"


@pytest.mark.parametrize(
    "name",
    ["foo", "priority", "cache_salt", "request_id", "kv_transfer_params", "chat_template", "mm_processor_kwargs",
     "media_io_kwargs", "use_beam_search", "prompt_embeds", "vllm_xargs", "session_id", "ec_transfer_params"],
)  # fmt: skip
def test_an_unknown_field_is_named_as_openai_names_it(name: str) -> None:
    error = refused_chat(**{name: 1})

    assert error.message == f"Unrecognized request argument supplied: {name}"
    assert (error.param, error.code) == (None, None)


@pytest.mark.parametrize("name", ["chat_template", "tokenize", "tokenizer"])
def test_a_template_cannot_be_smuggled_in_as_an_argument_of_the_template(name: str) -> None:
    assert refused_chat(chat_template_kwargs={name: "x"}).param == f"chat_template_kwargs.{name}"


def test_prompt_bytes_count_all_text_and_the_tools() -> None:
    parts = [{"type": "text", "text": "é"}, {"type": "text", "text": "abc"}]
    plain = chat(messages=[{"role": "user", "content": parts}]).prompt_bytes
    with_tools = chat(messages=[{"role": "user", "content": parts}], tools=[TOOL]).prompt_bytes

    assert plain == 5
    assert with_tools > plain + len("look_up")
