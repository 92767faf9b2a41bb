"""Equal requests get kept answers, well-formed in every form; nothing but a good answer to the same one is given."""

import json
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import OpenAI

from tests.acceptance import sse
from tests.acceptance.conftest import JOURNAL
from tests.acceptance.load import MODEL, SOON_S, at_rest
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

GREEDY: Mapping[str, Any] = {"temperature": 0, "max_tokens": 500}


@pytest.fixture(scope="module")
def keys(keeping: Stack) -> dict[str, str]:
    """Tenants whose plans differ in what is kept."""
    return keeping.add_tenants(
        {
            "alice": {},
            "bob": {},
            "sharing-1": {"cache_sharing": "shared"},
            "sharing-2": {"cache_sharing": "shared"},
            "keeps-none": {"response_cache": "off"},
            "keeps-all": {"response_cache": "all"},
            "forgets-soon": {"response_cache_ttl_s": 1},
            "half-price": {"cached_price_percent": 50, "output_tokens_per_day": 100_000},
            "three-a-day": {"requests_per_day": 3},
            "repeats": {"retention_hours": 1},
        }
    )


def question() -> str:
    """One that nobody has asked before."""
    return f"Question {uuid.uuid4()}"


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **GREEDY, **fields}


def ask(
    stack: Stack, body: dict[str, Any], key: str = "", path: str = "/chat/completions", **headers: str
) -> httpx.Response:
    # One listening socket feeds both gateways: fresh connections reach either.
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    told |= {"authorization": f"Bearer {key or stack.api_key}", "connection": "close"}
    return httpx.post(f"{stack.base_url}{path}", headers=told, json=body, timeout=60)


def word(response: httpx.Response) -> str | None:
    assert response.status_code == 200, response.text
    assert response.headers.get("x-cache") == response.headers.get("x-sluice-cache")
    return response.headers.get("x-cache")


def kept(stack: Stack) -> set[bytes]:
    """Names of the answers that the store keeps; others may end meanwhile."""
    return set(stack.store().scan_iter("sl:answer:*"))


def is_kept(stack: Stack, response: httpx.Response) -> bool:
    """Whether the store keeps this answer."""
    return bool(stack.store().exists(f"sl:answer:{response.headers['x-sluice-cache-key']}"))


def compute(stack: Stack, body: dict[str, Any], key: str = "", **more: Any) -> httpx.Response:
    """Ask for the first time, and wait until the answer is kept for both gateways."""
    response = ask(stack, body, key, **more)
    assert word(response) == "miss"
    wait_until(lambda: is_kept(stack, response), SOON_S, "the answer was not kept")
    return response


def runs_of(stack: Stack, response: httpx.Response) -> int:
    """How often an engine ran a request."""
    journal = (Path(stack.data_dir).parent / JOURNAL).read_text().splitlines()
    return sum(json.loads(line)["request_id"] == response.headers["x-request-id"] for line in journal)


def row_of(stack: Stack, response: httpx.Response) -> tuple[Any, ...]:
    """Outcome, cache, prompt and completion tokens of a request's usage row."""
    name = response.headers["x-request-id"]
    columns = "request_id, outcome, cache, prompt_tokens, completion_tokens"
    found = wait_until(lambda: [one for one in stack.usage_rows(columns) if one[0] == name], SOON_S)
    return tuple(found[0][1:])


# --- hits -----------------------------------------------------------------------------------------------------------


def test_a_repeated_greedy_request_is_given_the_kept_answer_by_both_gateways(keeping: Stack) -> None:
    body = chat(question())
    first = compute(keeping, body)
    again = [ask(keeping, body) for _ in range(8)]
    assert {word(one) for one in again} == {"hit"}
    assert all(int(one.headers["age"]) >= 0 for one in again)
    answers = [one.json() for one in [first, *again]]
    assert len({one["id"] for one in answers}) == 9
    assert [one["id"] for one in answers] == [f"chatcmpl-{one.headers['x-request-id']}" for one in [first, *again]]
    assert len({json.dumps([one["choices"], one["usage"], one["created"]]) for one in answers}) == 1
    assert [runs_of(keeping, one) for one in [first, *again]] == [1] + [0] * 8
    assert row_of(keeping, again[0]) == ("completed", "hit", 0, 0)


def test_variants_in_form_alone_get_the_same_answer(keeping: Stack) -> None:
    text = question()
    compute(keeping, chat(text, stop="x", seed=1))
    parts = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    written_otherwise = [
        {"max_completion_tokens": 500, "max_tokens": None},
        {"temperature": 0.0, "n": 1, "presence_penalty": 0},
        {"stop": ["x"], "user": "me", "metadata": {"a": "b"}},
        {"messages": parts, "service_tier": "flex", "timeout": 50},
    ]
    for fields in written_otherwise:
        assert word(ask(keeping, chat(text, **({"stop": "x", "seed": 1} | fields)))) == "hit", fields


def test_what_was_computed_whole_is_given_as_a_stream(keeping: Stack) -> None:
    text = question()
    whole = compute(keeping, chat(text)).json()
    streamed = ask(keeping, chat(text, stream=True, stream_options={"include_usage": True}))
    assert word(streamed) == "hit"
    found = sse.strict_response(streamed)
    assert found.text == whole["choices"][0]["message"]["content"]
    assert found.usage == [whole["usage"]]
    bare = sse.strict_response(ask(keeping, chat(text, stream=True)))
    assert bare.text == found.text
    assert bare.usage == []


def test_what_was_streamed_is_given_whole(keeping: Stack) -> None:
    text = question()
    found = sse.strict_response(compute(keeping, chat(text, stream=True)))
    again = ask(keeping, chat(text))
    assert word(again) == "hit"
    answer = again.json()
    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"] == found.text
    assert answer["usage"]["completion_tokens"] == row_of_tokens(keeping, chat(text))


def row_of_tokens(stack: Stack, body: dict[str, Any]) -> int:
    """Completion tokens as an engine counts them for the same request."""
    return int(ask(stack, body, cache_control="no-store").json()["usage"]["completion_tokens"])


def test_the_official_client_reads_kept_answers_in_both_forms(keeping: Stack, client: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": question()}]
    tools: Any = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]
    asked: Any = {"model": MODEL, "messages": messages, "temperature": 0, "tools": tools, "tool_choice": "required"}
    before = kept(keeping)
    first = client.chat.completions.create(**asked)
    wait_until(lambda: kept(keeping) - before, SOON_S)
    again = client.chat.completions.with_raw_response.create(**asked)
    assert again.headers["x-cache"] == "hit"
    assert again.parse().choices == first.choices
    with client.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        final = stream.get_final_completion()
    called = final.choices[0].message.tool_calls
    assert called is not None
    wanted = first.choices[0].message.tool_calls
    assert wanted is not None
    assert [(one.id, one.function.name, one.function.arguments) for one in called] == [
        (one.id, one.function.name, one.function.arguments) for one in wanted if one.type == "function"
    ]
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage == first.usage


@pytest.fixture(scope="module")
def client(keeping: Stack) -> Any:
    with keeping.client() as made:
        yield made


def test_completions_are_kept_too(keeping: Stack) -> None:
    body = {"model": MODEL, "prompt": [question(), question()], "n": 2, **GREEDY}
    first = compute(keeping, body, path="/completions")
    again = ask(keeping, body, path="/completions")
    assert word(again) == "hit"
    assert again.json()["choices"] == first.json()["choices"]
    assert again.json()["id"] == f"cmpl-{again.headers['x-request-id']}"
    stream = sse.strict_response(ask(keeping, body | {"stream": True}, path="/completions"), choices=4)
    assert [stream.texts[index] for index in range(4)] == [one["text"] for one in first.json()["choices"]]


def test_the_tier_is_told_as_it_is_now(keeping: Stack) -> None:
    text = question()
    compute(keeping, chat(text))
    assert ask(keeping, chat(text, service_tier="flex")).json()["service_tier"] == "flex"
    assert "service_tier" not in ask(keeping, chat(text)).json()


# --- what is another question (B43) ---------------------------------------------------------------------------------


def test_every_field_that_may_change_the_answer_makes_another_question(keeping: Stack) -> None:
    text = question()
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    changes: list[dict[str, Any]] = [
        {},
        {"stop": ["q"]},
        {"seed": 1},
        {"seed": 2},
        {"response_format": {"type": "json_object"}},
        {"tools": [tool]},
        {"tools": [tool], "tool_choice": "required"},
        {"n": 2},
        {"logprobs": True},
        {"logprobs": True, "top_logprobs": 2},
        {"max_tokens": 501},
        {"top_p": 0.5},
        {"logit_bias": {"5": 1}},
        {"messages": [{"role": "system", "content": text}]},
    ]
    words = [word(ask(keeping, chat(text, **fields))) for fields in changes]
    assert words == ["miss"] * len(changes)


# --- what is never kept (poisoning) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("script", "fields", "status"),
    [
        ("tokens=50", {"max_tokens": 5}, 200),
        ("error=400", {}, 400),
        ("error=500", {}, 502),
        ("die_after=3", {}, 502),
    ],
    ids=["cut by length", "rejected", "failed", "failed on the way"],
)
def test_no_answer_but_a_good_one_is_kept(
    keeping: Stack, stream: bool, script: str, fields: dict[str, Any], status: int
) -> None:
    body = chat(question(), metadata={"sim": script}, stream=stream, **fields)
    before = kept(keeping)
    responses = [ask(keeping, body), ask(keeping, body)]
    for response in responses:
        begun = stream and script.startswith("die")
        assert response.status_code == (200 if begun else status)
        assert response.headers.get("x-cache") in (None, "miss")
    at_rest(keeping)
    assert kept(keeping) <= before


def test_an_answer_whose_client_left_is_not_kept(keeping: Stack) -> None:
    body = chat(question(), metadata={"sim": "tokens=4000,itl=0.05"}, stream=True, max_tokens=4000)
    before = kept(keeping)
    headers = {"authorization": f"Bearer {keeping.api_key}"}
    with httpx.stream("POST", f"{keeping.base_url}/chat/completions", json=body, headers=headers) as response:
        next(response.iter_raw())
    at_rest(keeping)
    assert kept(keeping) <= before


# --- what requests and plans say ------------------------------------------------------------------------------------


def test_sampled_answers_are_computed_unless_plan_or_request_say_otherwise(
    keeping: Stack, keys: dict[str, str]
) -> None:
    body = chat(question(), temperature=1)
    assert [word(ask(keeping, body)) for _ in range(2)] == [None, None]
    compute(keeping, body, x_sluice_cache="on")
    assert word(ask(keeping, body, x_sluice_cache="on")) == "hit"
    assert word(ask(keeping, body)) is None
    compute(keeping, body, keys["keeps-all"])
    assert word(ask(keeping, body, keys["keeps-all"])) == "hit"
    for _ in range(2):
        assert word(ask(keeping, body, keys["keeps-none"], x_sluice_cache="on")) is None


@pytest.mark.parametrize("headers", [{"cache_control": "no-store"}, {"x_sluice_cache": "off"}])
def test_no_store_neither_reads_nor_keeps(keeping: Stack, headers: dict[str, str]) -> None:
    body = chat(question())
    before = kept(keeping)
    assert word(ask(keeping, body, **headers)) is None
    at_rest(keeping)
    assert kept(keeping) <= before
    compute(keeping, body)
    assert word(ask(keeping, body, **headers)) is None


@pytest.mark.parametrize("headers", [{"cache_control": "No-Cache"}, {"x_sluice_cache": "refresh"}])
def test_no_cache_computes_anew_and_keeps_that(keeping: Stack, headers: dict[str, str]) -> None:
    body = chat(question())
    compute(keeping, body)
    anew = ask(keeping, body, **headers)
    assert word(anew) == "miss"
    assert runs_of(keeping, anew) == 1
    wait_until(lambda: ask(keeping, body).json()["created"] >= anew.json()["created"], SOON_S)


def test_max_age_takes_no_older_answer(keeping: Stack) -> None:
    body = chat(question())
    compute(keeping, body)
    wait_until(lambda: int(ask(keeping, body).headers["age"]) >= 1, SOON_S)
    assert word(ask(keeping, body, cache_control="max-age=3600")) == "hit"
    assert word(ask(keeping, body, cache_control="max-age=0")) == "miss"


def test_only_if_cached_is_never_computed(keeping: Stack) -> None:
    body = chat(question())
    refused = ask(keeping, body, cache_control="only-if-cached")
    assert refused.status_code == 504
    assert sse.error_of(refused)["code"] == "not_kept"
    assert refused.headers["x-should-retry"] == "false"
    assert runs_of(keeping, refused) == 0
    compute(keeping, body)
    for _ in range(4):
        assert word(ask(keeping, body, cache_control="only-if-cached")) == "hit"
    sampled = ask(keeping, chat(question(), temperature=1), cache_control="only-if-cached")
    assert sampled.status_code == 504


@pytest.mark.parametrize("value", ["yes", "", "on, off", "ON OFF"])
def test_a_malformed_header_is_refused_in_words(keeping: Stack, value: str) -> None:
    refused = ask(keeping, chat(question()), x_sluice_cache=value)
    assert refused.status_code == 400
    assert "x-sluice-cache" in sse.error_of(refused)["message"]


def test_an_answer_is_kept_no_longer_than_its_plan_says(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    compute(keeping, body, keys["forgets-soon"])
    wait_until(lambda: word(ask(keeping, body, keys["forgets-soon"])) == "miss", SOON_S)


def test_the_last_good_answer_stands_in_where_computing_takes_too_long(keeping: Stack, keys: dict[str, str]) -> None:
    body, key = chat(question(), metadata={"sim": "delay=2,tokens=5"}), keys["forgets-soon"]
    first = compute(keeping, body, key)
    hurried = body | {"timeout": 0.5}
    stale = wait_until(lambda: (one := ask(keeping, hurried, key)).headers["x-cache"] == "stale" and one, SOON_S)
    assert stale.json()["choices"] == first.json()["choices"]
    assert int(stale.headers["age"]) >= 1
    assert stale.headers["warning"].startswith("110 ")
    assert sse.strict_response(ask(keeping, hurried | {"stream": True}, key)).text
    assert ask(keeping, hurried, key, cache_control="no-cache").status_code == 504
    assert ask(keeping, hurried, key, cache_control="max-age=1").status_code == 504


def test_an_idempotency_key_is_looked_at_first(keeping: Stack, keys: dict[str, str]) -> None:
    body, key, name = chat(question()), keys["repeats"], str(uuid.uuid4())
    compute(keeping, body, key)
    first = ask(keeping, body, key, idempotency_key=name)
    assert word(first) == "hit"
    again = wait_until(lambda: replayed(keeping, body, key, name), SOON_S)
    assert again.content == first.content
    assert again.headers["x-sluice-original-request-id"] == first.headers["x-request-id"]
    assert ask(keeping, chat(question()), key, idempotency_key=name).status_code == 422


def replayed(stack: Stack, body: dict[str, Any], key: str, name: str) -> httpx.Response | None:
    response = ask(stack, body, key, idempotency_key=name)
    return response if response.status_code == 200 and "x-sluice-idempotent-replayed" in response.headers else None


# --- limits, prices and other tenants (B42) -------------------------------------------------------------------------


def test_a_kept_answer_is_no_way_around_a_limit(keeping: Stack, keys: dict[str, str]) -> None:
    body, key = chat(question()), keys["three-a-day"]
    compute(keeping, body, key)
    assert [word(ask(keeping, body, key)) for _ in range(2)] == ["hit", "hit"]
    refused = ask(keeping, body, key)
    assert refused.status_code == 429
    assert sse.error_of(refused)["reason"] == "requests_per_day"


def test_a_kept_answer_counts_for_the_part_that_its_plan_says(keeping: Stack, keys: dict[str, str]) -> None:
    body, key = chat(question()), keys["half-price"]
    first = compute(keeping, body, key).json()["usage"]
    hit = ask(keeping, body, key)
    assert word(hit) == "hit"
    halves = [-(-first[name] // 2) for name in ("prompt_tokens", "completion_tokens")]
    assert row_of(keeping, hit) == ("completed", "hit", *halves)


def test_tenants_never_get_each_others_answers(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    compute(keeping, body, keys["alice"])
    theirs = ask(keeping, body, keys["bob"])
    assert word(theirs) == "miss"
    assert "age" not in theirs.headers
    assert runs_of(keeping, theirs) == 1
    assert ask(keeping, chat(question()), keys["bob"], cache_control="only-if-cached").status_code == 504


def test_tenants_whose_plans_share_get_each_others_answers(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    compute(keeping, body, keys["sharing-1"])
    theirs = ask(keeping, body, keys["sharing-2"])
    assert word(theirs) == "hit"
    assert word(ask(keeping, body, keys["alice"])) == "miss"


def test_figures_tell_what_kept_answers_did(keeping: Stack) -> None:
    figures = httpx.get(f"{keeping.root_url}/metrics", timeout=20).text
    for name in ("sluice_cache_requests_total", "sluice_cache_bytes", "sluice_cache_entries"):
        assert f"\n{name}{{" in figures
