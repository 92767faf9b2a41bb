"""Two requests have one form if and only if every field that may change the answer is equal."""

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.canonical import LEFT_OUT, canonical_body, is_deterministic
from gateway.schema import (
    ChatRequest,
    CompletionsRequest,
    EmbeddingsRequest,
    parse_chat,
    parse_completions,
    parse_embeddings,
)

Form = Mapping[str, str]
"""Members of a body, each as raw JSON."""
Meanings = Sequence[Sequence[Form]]
"""What a part of a body may mean, and for each meaning the forms in which it can be written."""

ABSENT: Form = {}


def null_or(name: str, *meanings: Sequence[str]) -> Meanings:
    """A field that may be left out or null; each meaning in one or more ways of writing it."""
    return [[ABSENT, {name: "null"}], *([{name: text} for text in texts] for texts in meanings)]


def tool(parameters: str) -> str:
    return f'{{"type":"function","function":{{"name":"f","parameters":{parameters}}}}}'


OTHER_TOOL = '{"function":{"name":"g"},"type":"function"}'
SCHEMA = '{"type":"json_schema","json_schema":{"name":"s","schema":%s}}'
USER = '[{"role":"user","content":%s}]'

SAMPLING: Mapping[str, Meanings] = {
    "frequency_penalty": null_or("frequency_penalty", ("1", "1.0", "1e0", "10e-1"), ("-1",), ("0.5",)),
    "presence_penalty": [
        [ABSENT, {"presence_penalty": "null"}, {"presence_penalty": "0"}, {"presence_penalty": "-0.0"}],
        [{"presence_penalty": "2"}, {"presence_penalty": "2.0"}],
    ],
    "logit_bias": null_or("logit_bias", ('{"1":5,"20":-5}', '{"20":-5.0,"01":5e0}'), ('{"1":5}',), ('{"1":0}',)),
    "n": [[ABSENT, {"n": "null"}, {"n": "1"}], [{"n": "2"}]],
    "response_format": [
        [ABSENT, {"response_format": "null"}, {"response_format": '{"type":"text"}'}],
        [{"response_format": '{"type":"json_object"}'}],
        [
            {"response_format": SCHEMA % '{"type":"array","minItems":1.0,"maxItems":2}'},
            {"response_format": SCHEMA % '{"maxItems":2e0,"minItems":1,"type":"\\u0061rray"}'},
        ],
        [{"response_format": SCHEMA % '{"type":"array","minItems":1.5,"maxItems":2}'}],
        [{"structured_outputs": '{"regex":"a+"}'}, {"structured_outputs": '{"regex":"a+","json":null}'}],
        [{"structured_outputs": '{"choice":["a","b"]}'}],
        [{"structured_outputs": '{"choice":["b","a"]}'}],
    ],
    "seed": null_or("seed", ("0", "-0"), ("1",)),
    "stop": [
        [ABSENT, {"stop": "null"}, {"stop": "[]"}],
        [{"stop": '"x"'}, {"stop": '["x"]'}, {"stop": '["\\u0078"]'}],
        [{"stop": '["x","y"]'}],
        [{"stop": '["y","x"]'}],
    ],
    "temperature": null_or("temperature", ("0", "0.0", "-0.0", "0e5"), ("1", "1.0", "1e0"), ("0.7",)),
    "top_p": null_or("top_p", ("1", "1.0"), ("0.5",)),
    "top_k": null_or("top_k", ("1",), ("40",)),
    "min_p": null_or("min_p", ("0", "-0.0"), ("0.1",)),
    "repetition_penalty": null_or("repetition_penalty", ("1", "1.0"), ("1.1",)),
    "min_tokens": [[ABSENT, {"min_tokens": "0"}], [{"min_tokens": "2"}]],
    "ignore_eos": [[ABSENT, {"ignore_eos": "false"}], [{"ignore_eos": "true"}]],
    "stop_token_ids": [
        [ABSENT, {"stop_token_ids": "null"}, {"stop_token_ids": "[]"}],
        [{"stop_token_ids": "[1,2]"}, {"stop_token_ids": "[2,1,1]"}],
        [{"stop_token_ids": "[1]"}],
    ],
    "allowed_token_ids": null_or("allowed_token_ids", ("[1,2]", "[2,1]"), ("[1]",)),
    "bad_words": [[ABSENT, {"bad_words": "[]"}], [{"bad_words": '["a"]'}]],
    "include_stop_str_in_output": [[ABSENT], [{"include_stop_str_in_output": "true"}]],
    "skip_special_tokens": [[ABSENT, {"skip_special_tokens": "true"}], [{"skip_special_tokens": "false"}]],
    "spaces_between_special_tokens": [[ABSENT], [{"spaces_between_special_tokens": "false"}]],
    "truncate_prompt_tokens": null_or("truncate_prompt_tokens", ("5",), ("-1",)),
    "return_tokens_as_token_ids": null_or("return_tokens_as_token_ids", ("true",)),
    "return_token_ids": null_or("return_token_ids", ("true",)),
}

IGNORED: Meanings = [
    [
        ABSENT,
        {"stream": "true"},
        {"stream": "true", "stream_options": '{"include_usage":true}'},
        {"timeout": "5", "user": '"me"', "service_tier": '"flex"'},
        {"metadata": '{"a":"b"}'},
    ],
    [{"metadata": '{"sim":"tokens=3"}'}, {"metadata": '{"sim":"tokens=3","a":"b"}'}],
]

CHAT: Mapping[str, Meanings] = {
    **SAMPLING,
    "ignored": IGNORED,
    "hints": [
        [
            ABSENT,
            {"store": "true", "safety_identifier": '"s"'},
            {"prompt_cache_key": '"k"', "prompt_cache_options": "{}", "prompt_cache_retention": '"24h"'},
        ]
    ],
    "messages": [
        [
            {"messages": USER % '"a"'},
            {"messages": '[{"content":"\\u0061","role":"user"}]'},
            {"messages": USER % '[{"type":"text","text":"a"}]'},
            {"messages": USER % '[{"text":"a","type":"text","prompt_cache_breakpoint":{"mode":"explicit"}}]'},
        ],
        [{"messages": USER % '"a "'}],
        [{"messages": USER % '"\\u00e9"'}, {"messages": USER % '"é"'}],
        [{"messages": USER % '"e\\u0301"'}],
        [{"messages": USER % '[{"type":"text","text":"a"},{"type":"text","text":"b"}]'}],
        [{"messages": '[{"role":"system","content":"a"}]'}],
        [{"messages": '[{"role":"developer","content":"a"}]'}],
        [{"messages": '[{"role":"user","content":"a","name":"n"}]'}],
        [{"messages": '[{"role":"assistant","content":"a"}]'}],
        [{"messages": '[{"role":"assistant","content":[{"type":"refusal","refusal":"a"}]}]'}],
        [{"messages": '[{"role":"tool","content":"a","tool_call_id":"1"}]'}],
        [{"messages": '[{"role":"tool","content":"a","tool_call_id":"2"}]'}],
        [{"messages": '[{"role":"assistant","content":"a","reasoning":"r"}]'}],
    ],
    "tokens": [
        [ABSENT, {"max_tokens": "null"}, {"max_completion_tokens": "null"}],
        [{"max_tokens": "7"}, {"max_completion_tokens": "7"}, {"max_tokens": "null", "max_completion_tokens": "7"}],
        [{"max_completion_tokens": "8"}],
    ],
    "logprobs": [
        [ABSENT, {"logprobs": "false"}, {"logprobs": "null", "top_logprobs": "null"}],
        [{"logprobs": "true"}, {"logprobs": "true", "top_logprobs": "0"}],
        [{"logprobs": "true", "top_logprobs": "2"}],
    ],
    "tools": [
        [ABSENT, {"tools": "null", "tool_choice": "null"}],
        [
            {"tools": "[" + tool('{"a":1,"b":[2.0]}') + "]"},
            {"tools": "[" + tool('{"b":[2],"a":1e0}') + "]", "tool_choice": '"auto"'},
        ],
        [{"tools": "[" + tool('{"a":1,"b":[2.5]}') + "]"}],
        [{"tools": "[" + tool('{"a":1,"b":["2.0"]}') + "]"}],
        [{"tools": f"[{tool('{}')},{OTHER_TOOL}]"}],
        [{"tools": f"[{OTHER_TOOL},{tool('{}')}]"}],
        [{"tools": f"[{OTHER_TOOL}]", "tool_choice": '"required"'}],
        [{"tools": f"[{OTHER_TOOL}]", "tool_choice": '"none"'}],
        [{"tools": f"[{OTHER_TOOL}]", "tool_choice": '{"type":"function","function":{"name":"g"}}'}],
    ],
    "parallel_tool_calls": [[ABSENT, {"parallel_tool_calls": "true"}], [{"parallel_tool_calls": "false"}]],
    "modalities": [[ABSENT, {"modalities": '["text"]', "function_call": '"none"'}, {"function_call": "null"}]],
    "audio": null_or("audio", ("{}",)),
    "prediction": null_or("prediction", ('{"type":"content"}',)),
    "reasoning_effort": null_or("reasoning_effort", ('"low"',), ('"high"',)),
    "verbosity": null_or("verbosity", ('"low"',)),
    "prompt_form": [
        [ABSENT, {"add_generation_prompt": "true", "continue_final_message": "false"}],
        [{"add_generation_prompt": "false"}],
        [{"add_generation_prompt": "false", "continue_final_message": "true"}],
    ],
    "chat_template_kwargs": null_or("chat_template_kwargs", ('{"a":1,"b":2}', '{"b":2.0,"a":1}'), ('{"a":2,"b":1}',)),
    "documents": null_or("documents", ('[{"title":"t"}]',)),
    "include_reasoning": [[ABSENT, {"include_reasoning": "true"}], [{"include_reasoning": "false"}]],
    "thinking_token_budget": null_or("thinking_token_budget", ("5",)),
    "add_special_tokens": [[ABSENT, {"add_special_tokens": "false"}], [{"add_special_tokens": "true"}]],
}

COMPLETIONS: Mapping[str, Meanings] = {
    **{name: meanings for name, meanings in SAMPLING.items() if name != "n"},
    "ignored": IGNORED,
    "n": [[ABSENT, {"n": "1"}, {"best_of": "1"}], [{"n": "2"}, {"n": "2", "best_of": "2"}]],
    "prompt": [
        [{"prompt": '"a"'}, {"prompt": '["a"]'}],
        [{"prompt": "[1,2]"}, {"prompt": "[[1,2]]"}],
        [{"prompt": '["a","b"]'}],
        [{"prompt": "[2,1]"}],
    ],
    "max_tokens": [[ABSENT, {"max_tokens": "16"}], [{"max_tokens": "null"}], [{"max_tokens": "17"}]],
    "echo": [[ABSENT, {"echo": "false"}, {"echo": "null"}], [{"echo": "true"}]],
    "logprobs": null_or("logprobs", ("0",), ("3",)),
    "add_special_tokens": [[ABSENT, {"add_special_tokens": "true"}], [{"add_special_tokens": "false"}]],
}

EMBEDDINGS: Mapping[str, Meanings] = {
    "ignored": [[ABSENT, {"timeout": "5", "user": '"me"', "service_tier": '"flex"', "metadata": '{"a":"b"}'}]],
    "input": [
        [{"input": '"a"'}, {"input": '["a"]'}],
        [{"input": "[1,2]"}, {"input": "[[1,2]]"}],
        [{"input": '["a","b"]'}],
        [{"input": '["b","a"]'}],
    ],
    "dimensions": null_or("dimensions", ("4",)),
    "encoding_format": [
        [ABSENT, {"encoding_format": '"float"'}, {"encoding_format": "null"}],
        [{"encoding_format": '"base64"'}],
    ],
}

KINDS = {
    "chat": (ChatRequest, parse_chat, CHAT),
    "completions": (CompletionsRequest, parse_completions, COMPLETIONS),
    "embeddings": (EmbeddingsRequest, parse_embeddings, EMBEDDINGS),
}

NEVER = frozenset(("web_search_options", "moderation", "functions", "suffix", "prompt"))
"""Fields of a chat or completion that are refused, or replaced before anything else is read (a stored prompt)."""


def form_of(kind: str, members: Mapping[str, str]) -> bytes:
    body = "{" + ",".join(f'"{name}":{text}' for name, text in {"model": '"m"', **members}.items()) + "}"
    request = KINDS[kind][1](body.encode()).request
    assert request is not None
    found = canonical_body(request, "served")
    assert found is not None
    return found


@st.composite
def bodies(draw: st.DrawFn, kind: str) -> tuple[dict[str, str], dict[str, str], bool]:
    """Two bodies, and whether they mean the same: of most parts the same, in any form and order."""
    parts = KINDS[kind][2]
    one: list[tuple[str, str]] = []
    other: list[tuple[str, str]] = []
    mutated = draw(st.sampled_from([None, *parts]))
    same = True
    for name, meanings in parts.items():
        meaning = draw(st.integers(0, len(meanings) - 1)) if draw(st.booleans()) else 0
        its = draw(st.integers(0, len(meanings) - 1)) if name == mutated else meaning
        same = same and its == meaning
        one += draw(st.sampled_from(meanings[meaning])).items()
        other += draw(st.sampled_from(meanings[its])).items()
    return dict(draw(st.permutations(one))), dict(draw(st.permutations(other))), same


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_requests_share_a_form_if_and_only_if_they_mean_the_same(kind: str, data: st.DataObject) -> None:
    one, other, same = data.draw(bodies(kind))
    assert (form_of(kind, one) == form_of(kind, other)) is same


@pytest.mark.parametrize("kind", KINDS)
def test_every_meaning_of_every_part_alone_has_a_form_of_its_own(kind: str) -> None:
    parts = KINDS[kind][2]
    base = {name: text for meanings in parts.values() for name, text in meanings[0][0].items()}
    for name, meanings in parts.items():
        forms = [{form_of(kind, base | dict(form)) for form in forms} for forms in meanings]
        assert [len(found) for found in forms] == [1] * len(meanings), name
        assert len(set.union(*forms)) == len(meanings), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_request_is_in_the_form_or_left_out_for_a_reason(kind: str) -> None:
    request_type, _, parts = KINDS[kind]
    varied = {name for meanings in parts.values() for forms in meanings for form in forms for name in form}
    never = NEVER if kind == "chat" else NEVER - {"prompt"}
    assert set(request_type.__struct_fields__) - varied - never == {"model"}
    assert varied & never == set()


def test_what_is_left_out_is_a_field_and_has_a_reason() -> None:
    fields = {name for request_type, _, _ in KINDS.values() for name in request_type.__struct_fields__}
    assert set(LEFT_OUT) - fields == {"prompt_cache_breakpoint"}
    assert all(LEFT_OUT.values())


def test_a_request_stays_as_it_came() -> None:
    body = (
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"max_tokens":3,"stop":"x"}'
    )
    request = parse_chat(body).request
    before = msgspec.json.encode(request)
    assert request is not None
    assert canonical_body(request, "m")
    assert msgspec.json.encode(request) == before


def test_another_model_has_another_form() -> None:
    request = parse_chat(b'{"model":"alias","messages":[{"role":"user","content":"a"}]}').request
    assert request is not None
    assert canonical_body(request, "a") != canonical_body(request, "b")


@pytest.mark.parametrize(
    ("kind", "members", "wanted"),
    [
        ("chat", {"messages": USER % '"a"', "temperature": "0"}, True),
        ("chat", {"messages": USER % '"a"', "temperature": "1e-9"}, False),
        ("chat", {"messages": USER % '"a"'}, False),
        ("chat", {"messages": USER % '"a"', "seed": "0"}, True),
        ("completions", {"prompt": '"a"', "seed": "5", "temperature": "1"}, True),
        ("completions", {"prompt": '"a"'}, False),
        ("embeddings", {"input": '"a"'}, True),
    ],
)
def test_what_a_repetition_would_answer_the_same(kind: str, members: dict[str, str], wanted: bool) -> None:
    body = "{" + ",".join(f'"{name}":{text}' for name, text in {"model": '"m"', **members}.items()) + "}"
    request = KINDS[kind][1](body.encode()).request
    assert request is not None
    assert is_deterministic(request) is wanted
