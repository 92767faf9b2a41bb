"""A whole answer made a stream and made whole again is the same; what has no known place in both forms is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.usage import Usage
from gateway.fold import UnknownForm, check_whole, fold, has_good_end, unfold

USAGE = Usage(7, 3, 9)
COUNTS = {
    "prompt_tokens": 7,
    "completion_tokens": 9,
    "total_tokens": 16,
    "prompt_tokens_details": {"cached_tokens": 3},
}

texts = st.text(max_size=8)
some_text = st.text(min_size=1, max_size=8)
reasons = st.sampled_from(["stop", "tool_calls", "length"])
calls = st.builds(
    lambda call_id, name, arguments: {
        "id": call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    },
    *(some_text, some_text, texts),
)
chat_logprobs = st.none() | st.builds(
    lambda tokens: {"content": [{"token": token, "logprob": -1.5} for token in tokens], "refusal": None},
    st.lists(texts, min_size=1, max_size=3),
)
text_logprobs = st.none() | st.builds(
    lambda tokens: {
        "tokens": tokens,
        "token_logprobs": [None] * len(tokens),
        "top_logprobs": None,
        "text_offset": list(range(len(tokens))),
    },
    st.lists(texts, min_size=1, max_size=3),
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {"role": "assistant", "content": draw(some_text | st.none()), "refusal": None}
    if draw(st.booleans()):
        found["refusal"] = draw(some_text)
    if draw(st.booleans()):
        found["reasoning"] = draw(some_text)
    if draw(st.booleans()):
        found["tool_calls"] = draw(st.lists(calls, min_size=1, max_size=3))
    if len(found) == 3 and found["content"] is found["refusal"] is None:
        found["content"] = ""
    return found


@st.composite
def answers(draw: st.DrawFn) -> dict[str, Any]:
    chat = draw(st.booleans())
    choices = []
    for index in range(draw(st.integers(1, 3))):
        said = {"message": draw(messages())} if chat else {"text": draw(texts)}
        logprobs = draw(chat_logprobs if chat else text_logprobs)
        choices.append({"index": index, **said, "logprobs": logprobs, "finish_reason": draw(reasons)})
        if draw(st.booleans()):
            choices[-1]["stop_reason"] = draw(st.integers(0, 9) | some_text)
    kind = "chat.completion" if chat else "text_completion"
    head = {"id": "chatcmpl-1", "object": kind, "created": 5, "model": "m"}
    if draw(st.booleans()):
        head["system_fingerprint"] = "fp"
    return {**head, "choices": choices, "usage": COUNTS}


@given(answer=answers(), include_usage=st.booleans())
def test_what_is_unfolded_folds_to_the_same(answer: dict[str, Any], include_usage: bool) -> None:
    assert fold(unfold(answer, include_usage=include_usage), USAGE) == answer


@given(answer=answers())
def test_a_stream_is_well_formed(answer: dict[str, Any]) -> None:
    chunks = [json.loads(chunk) for chunk in unfold(answer, include_usage=True)]
    assert len({(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}) == 1
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"] == COUNTS
    assert [chunk["usage"] for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    for index in range(len(answer["choices"])):
        pieces = [piece for chunk in chunks for piece in chunk["choices"] if piece["index"] == index]
        assert [piece["finish_reason"] for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert pieces[-1]["finish_reason"] == answer["choices"][index]["finish_reason"]
        if answer["object"] == "chat.completion":
            assert ["role" in piece["delta"] for piece in pieces] == [True] + [False] * (len(pieces) - 1)


@given(answer=answers())
def test_a_whole_answer_stays_as_it_is(answer: dict[str, Any]) -> None:
    assert check_whole(json.dumps(answer).encode(), USAGE) == answer


def chunk(choice: dict[str, Any], **more: Any) -> bytes:
    return json.dumps(
        {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [choice], **more}
    ).encode()


END = {"index": 0, "text": "", "finish_reason": "stop"}


@pytest.mark.parametrize(
    "frames",
    [
        [chunk({"index": 0, "text": "a"})],
        [chunk(END), chunk({"index": 0, "text": "a"})],
        [chunk(END | {"novelty": 1})],
        [chunk(END, novelty={"a": 1})],
        [chunk({"index": 0, "delta": {"audio": "a"}, "finish_reason": "stop"})],
        [chunk({"index": 0, "text": "a"}), chunk({"index": 1, "text": "", "finish_reason": "stop"})],
        [],
    ],
)
def test_what_has_no_end_or_an_unknown_part_is_not_made_whole(frames: list[bytes]) -> None:
    with pytest.raises(UnknownForm):
        fold(frames, USAGE)


@pytest.mark.parametrize(
    "more",
    [
        {"novelty": 1},
        {"choices": []},
        {"object": "list"},
        {"choices": [END | {"token_ids": [1]}]},
        {"choices": [{"index": 0, "message": {"audio": {"id": "a"}}, "finish_reason": "stop"}]},
    ],
)
def test_a_whole_answer_with_an_unknown_part_is_told(more: dict[str, Any]) -> None:
    head = {"id": "c", "object": "text_completion", "created": 1, "model": "m", "choices": [END], "usage": None}
    check_whole(json.dumps(head).encode(), USAGE)
    with pytest.raises(UnknownForm):
        check_whole(json.dumps(head | more).encode(), USAGE)


def test_unknown_parts_that_are_empty_say_nothing() -> None:
    folded = fold([chunk(END | {"token_ids": None}, prompt_token_ids=None)], USAGE)
    assert folded["choices"] == [END | {"logprobs": None}]
    assert folded["usage"] == COUNTS


@pytest.mark.parametrize(
    ("reasons", "choices", "good"),
    [
        (["stop"], 1, True),
        (["tool_calls", "stop"], 2, True),
        (["stop", "length"], 2, False),
        (["content_filter"], 1, False),
        ([None], 1, False),
        (["stop"], 2, False),
    ],
)
def test_only_answers_that_came_to_their_own_end_are_good(reasons: list[str | None], choices: int, good: bool) -> None:
    assert has_good_end({"choices": [{"finish_reason": reason} for reason in reasons]}, choices) is good
