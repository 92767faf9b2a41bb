"""Streams as a careful client sees them, also when the engine behind them fails."""

import time
from typing import Any

import httpx
import pytest

from tests.acceptance import sse
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"


def ask(stack: Stack, sim: str = "", **fields: Any) -> httpx.Response:
    """POST a chat that the simulator answers as scripted; a stream unless told otherwise."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Tell me about locks."}], "stream": True}
    body |= {"metadata": {"sim": sim}} if sim else {}
    with stack.http() as client:
        return client.post("/chat/completions", json=body | fields)


def row(stack: Stack, response: httpx.Response) -> Any:
    """Outcome, status, prompt and completion tokens of the request's one usage row."""
    request_id = response.headers["x-request-id"]
    found = wait_until(lambda: [one[1:] for one in stack.usage_rows() if one[0] == request_id], 10)
    assert len(found) == 1
    return found[0]


def test_a_stream_is_well_formed_and_says_what_the_whole_answer_says(sim: Stack) -> None:
    stream = sse.strict_response(ask(sim))
    whole = ask(sim, stream=False).json()["choices"][0]
    assert stream.text == whole["message"]["content"]
    assert stream.finishes == {0: whole["finish_reason"]}
    assert stream.chunks[0]["choices"][0]["delta"]["role"] == "assistant"


@pytest.mark.parametrize(("fields", "reason"), [({}, "stop"), ({"max_tokens": 3}, "length")])
def test_the_last_frame_of_a_choice_carries_its_only_finish_reason(
    sim: Stack, fields: dict[str, Any], reason: str
) -> None:
    stream = sse.strict_response(ask(sim, **fields))
    assert stream.chunks[-1]["choices"][0]["finish_reason"] == reason


def test_an_engine_that_fails_for_good_is_no_success(sim: Stack) -> None:
    response = ask(sim, "die_after=3,tokens=100")
    stream = sse.failed(response.content)
    assert stream.error is not None
    assert stream.error["type"] == "upstream_error"
    delivered = sum(bool(choice["delta"].get("content")) for chunk in stream.chunks for choice in chunk["choices"])
    assert row(sim, response)[:2] == ("failed", 502)
    assert row(sim, response)[3] == delivered > 0


def test_an_engine_that_fails_before_its_first_word_is_a_plain_error(sim: Stack) -> None:
    response = ask(sim, "die_after=0")
    assert response.status_code == 502
    assert sse.error_of(response)["type"] == "upstream_error"
    assert row(sim, response) == ("failed", 502, 0, 0)


def test_a_whole_answer_whose_engine_fails_is_a_plain_error(sim: Stack) -> None:
    response = ask(sim, "die_after=3,tokens=100", stream=False)
    assert response.status_code == 502
    assert sse.error_of(response)["code"] == "engine_failed"
    assert row(sim, response)[:2] == ("failed", 502)


@pytest.mark.parametrize("sim_script", ["die_once_after=1", "die_once_after=5", "die_once_after=19"])
def test_an_answer_that_lost_its_engine_goes_on_where_it_was(sim: Stack, sim_script: str) -> None:
    undisturbed = sse.strict_response(ask(sim, "tokens=20"))
    response = ask(sim, f"{sim_script},tokens=20", stream_options={"include_usage": True})
    stream = sse.strict_response(response)
    assert stream.text == undisturbed.text
    roles = [choice for chunk in stream.chunks for choice in chunk["choices"] if choice["delta"].get("role")]
    assert len(roles) == 1
    assert len({chunk["id"] for chunk in stream.chunks}) == 1
    assert stream.usage[0]["completion_tokens"] == 20
    assert row(sim, response)[0::3] == ("completed", 20)


def test_several_choices_that_lost_their_engine_are_no_success(sim: Stack) -> None:
    response = ask(sim, "die_once_after=5,tokens=20", n=2)
    assert sse.failed(response.content).error is not None
    assert row(sim, response)[:2] == ("failed", 502)


def test_a_choice_that_ended_does_not_make_up_for_one_that_was_lost(sim: Stack) -> None:
    asked = {"n": 2, "messages": [{"role": "user", "content": "uneven"}]}
    lengths = [len(sse.strict_response(ask(sim, n=2, messages=asked["messages"]), 2).texts[index]) for index in (0, 1)]
    assert lengths[0] != lengths[1]
    tokens = ask(sim, **asked, stream=False).json()["usage"]["completion_tokens"]
    response = ask(sim, f"die_once_after={tokens - 1}", **asked)
    stream = sse.read(response.content)
    assert len(stream.finishes) == 1
    assert stream.error is not None
    assert not stream.done
    assert row(sim, response)[:2] == ("failed", 502)


def test_characters_of_several_bytes_arrive_whole(sim: Stack) -> None:
    stream = sse.strict_response(ask(sim, "utf8,tokens=60"))
    unit = "你好🙂é"
    assert "\ufffd" not in stream.text
    assert (unit * 20).startswith(stream.text)


def test_characters_of_several_bytes_survive_the_loss_of_the_engine(sim: Stack) -> None:
    undisturbed = sse.strict_response(ask(sim, "utf8,tokens=40"))
    assert sse.strict_response(ask(sim, "utf8,tokens=40,die_once_after=7")).text == undisturbed.text


@pytest.mark.parametrize("endpoint", ["chat", "completions"])
def test_each_of_several_choices_ends_once_and_is_counted_once(sim: Stack, endpoint: str) -> None:
    asked = {"n": 3, "max_tokens": 7, "stream_options": {"include_usage": True}, "stream": True, "model": MODEL}
    messages = {"messages": [{"role": "user", "content": "three"}]} if endpoint == "chat" else {"prompt": "three"}
    with sim.http() as client:
        path = "/chat/completions" if endpoint == "chat" else "/completions"
        response = client.post(path, json={**asked, **messages, "ignore_eos": True})
    stream = sse.strict_response(response, choices=3)
    assert len(set(stream.texts.values())) == 3
    assert stream.usage[0]["completion_tokens"] == 21
    assert row(sim, response)[3] == 21


def test_usage_comes_only_when_asked_for_and_is_metered_always(sim: Stack) -> None:
    asked = ask(sim, "tokens=9", stream_options={"include_usage": True})
    told = sse.strict_response(asked)
    assert told.chunks[-1]["choices"] == []
    assert told.usage == [told.chunks[-1]["usage"]]
    assert told.usage[0]["total_tokens"] == told.usage[0]["prompt_tokens"] + 9
    for fields in ({}, {"stream_options": {"include_usage": False}}):
        response = ask(sim, "tokens=9", **fields)
        stream = sse.strict_response(response)
        assert all(chunk["choices"] and not chunk.get("usage") for chunk in stream.chunks)
        assert row(sim, response) == ("completed", 200, told.usage[0]["prompt_tokens"], 9)


def test_a_silent_engine_leaves_a_stream_alive(pair: Stack) -> None:
    started = time.monotonic()
    stream = sse.strict_response(ask(pair, "delay=2,tokens=12,itl=0.2"))
    assert time.monotonic() - started > 2
    assert stream.comments >= 2
    assert stream.text == sse.strict_response(ask(pair, "tokens=12")).text


def test_a_refusal_is_json_though_a_stream_was_asked_for(sim: Stack) -> None:
    response = ask(sim, messages=[])
    assert response.status_code == 400
    assert sse.error_of(response)["param"] == "messages"


def test_a_body_that_the_engine_refuses_is_json_though_a_stream_was_asked_for(sim: Stack) -> None:
    response = ask(sim, messages=[{"role": "user", "content": "word " * 20_000}])
    assert response.status_code == 400
    assert sse.error_of(response)["code"] == "context_length_exceeded"
    assert row(sim, response)[:2] == ("rejected", 400)


def test_an_answer_of_megabytes_comes_whole(sim: Stack) -> None:
    size = 3 * 1024 * 1024
    assert len(sse.strict_response(ask(sim, f"big={size}")).text) == size
    assert len(ask(sim, f"big={size}", stream=False).json()["choices"][0]["message"]["content"]) == size
