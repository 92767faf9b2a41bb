"""What an answer that lost its engine can go on from."""

import orjson
import pytest

from domain.usage import Usage
from gateway.resume import Delivered, can_go_on, only_role, read_delivered, usage_chunk


def chat(delta: dict[str, object], finish: str | None = None, index: int = 0, **more: object) -> bytes:
    return orjson.dumps({"choices": [{"index": index, "delta": delta, "finish_reason": finish, **more}]})


ROLE = chat({"role": "assistant", "content": ""})


def test_nothing_delivered_starts_anew() -> None:
    assert read_delivered([]) == Delivered()


def test_text_is_put_together() -> None:
    so_far = read_delivered([ROLE, chat({"content": "Hel"}), chat({"content": "lo 🙂"})])
    assert so_far == Delivered("Hello 🙂", 0, True, True)


def test_text_of_completions_too() -> None:
    frames = [orjson.dumps({"choices": [{"index": 0, "text": part, "finish_reason": None}]}) for part in ("a", "b")]
    assert read_delivered(frames).text == "ab"


def test_an_answer_with_its_finish_reason_is_finished() -> None:
    assert read_delivered([ROLE, chat({}, finish="stop")]).finished == 1


def test_each_choice_is_finished_by_its_own_finish_reason() -> None:
    frames = [ROLE, chat({"content": "a"}, index=1), chat({"content": "b"}, finish="stop"), chat({}, index=1)]
    assert read_delivered(frames).finished == 1
    assert read_delivered([*frames, chat({}, finish="length", index=1)]).finished == 2


def test_other_choices_tool_calls_and_logprobs_are_not_plain() -> None:
    assert not read_delivered([chat({"content": "x"}, index=1)]).plain
    assert not read_delivered([chat({"tool_calls": [{"index": 0}]})]).plain
    assert not read_delivered([chat({"content": "x"}, logprobs={"content": []})]).plain


def test_the_chunk_of_usage_changes_nothing() -> None:
    usage = orjson.dumps({"choices": [], "usage": {"prompt_tokens": 1}})
    assert read_delivered([chat({"content": "x"}), usage]) == Delivered("x", 0, True, True, True)
    assert not only_role(usage)


def test_the_opening_chunk_is_recognised() -> None:
    assert only_role(ROLE)
    assert not only_role(chat({"role": "assistant", "content": "x"}))
    assert not only_role(chat({"content": "x"}))


def test_a_missing_chunk_of_usage_is_made_like_the_others() -> None:
    frame = orjson.dumps(
        {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": []}
    )
    made = orjson.loads(usage_chunk(frame, Usage(3, 1, 4)))
    assert made == {
        **orjson.loads(frame),
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }
    assert read_delivered([orjson.dumps(made)]).counted


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, True),
        ({"response_format": None}, True),
        ({"response_format": {"type": "text"}}, True),
        ({"response_format": {"type": "json_object"}}, False),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}}, False),
        ({"structured_outputs": {"choice": ["a", "b"]}}, False),
    ],
)
def test_an_answer_under_a_grammar_cannot_go_on_in_its_middle(fields: dict[str, object], expected: bool) -> None:
    assert can_go_on(orjson.dumps({"model": "m", **fields})) is expected
