"""What the unmodified official client gets when it cannot have an answer, or does not wait for it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from openai import (
    APIStatusError,
    APITimeoutError,
    AuthenticationError,
    BadRequestError,
    NotFoundError,
    OpenAI,
    PermissionDeniedError,
    RateLimitError,
)

from tests.stack import Stack, wait_until

pytestmark = pytest.mark.timeout(400)

QUESTION: list[Any] = [{"role": "user", "content": "Tell me a long story."}]
LONG: dict[str, Any] = {"max_tokens": 2000, "extra_body": {"ignore_eos": True}}
SETTLE_S = 20.0
FREE_S = 5.0


@pytest.fixture
def client(product: Stack) -> Iterator[OpenAI]:
    with product.client() as client:
        yield client


@pytest.fixture
def slow(product: Stack, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of a request that takes much longer than any test; the simulator has to be asked to be slow."""
    if request.node.callspec.params["product"] == "real":
        return LONG
    return {**LONG, "metadata": {"sim": "itl=0.05"}}


def is_free(product: Stack) -> bool:
    return not product.leftovers()


def outcomes(product: Stack) -> dict[str, str]:
    return dict(product.usage_rows("request_id, outcome"))


# --- refused ----------------------------------------------------------------------------------------------------------


def test_a_wrong_key_is_told(product: Stack, model: str) -> None:
    with product.client(api_key="sk-wrong-0123456789abcdef") as client, pytest.raises(AuthenticationError) as refused:
        client.chat.completions.create(model=model, messages=QUESTION)
    error = refused.value
    assert (error.status_code, error.code, error.type) == (401, "invalid_api_key", "invalid_request_error")
    assert "0123456789" not in error.message
    assert error.request_id == error.response.headers["x-request-id"]


def test_a_wrong_key_sees_no_models(product: Stack) -> None:
    with product.client(api_key="sk-wrong") as client, pytest.raises(AuthenticationError):
        client.models.list()


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_unknown_model_is_told(client: OpenAI, stream: bool) -> None:
    with pytest.raises(NotFoundError) as refused:
        client.chat.completions.create(model="gpt-unknown", messages=QUESTION, stream=stream)
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")
    with pytest.raises(NotFoundError) as refused:
        client.models.retrieve("gpt-unknown")
    assert (refused.value.code, refused.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_an_overlong_prompt_is_told(product: Stack, client: OpenAI, model: str, stream: bool) -> None:
    text = "water and stone " * 12_000
    with pytest.raises(BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": text}], stream=stream)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "messages")
    assert "maximum context length" in refused.value.message
    with pytest.raises(BadRequestError) as refused:
        client.completions.create(model=model, prompt=text, stream=stream)
    assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")
    wait_until(lambda: is_free(product), FREE_S)


def test_more_tokens_than_the_context_are_told(client: OpenAI, model: str) -> None:
    with pytest.raises(BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=QUESTION, max_tokens=1_000_000)
    assert refused.value.code == "context_length_exceeded"


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"temperature": 3}, "temperature"),
        ({"n": 0}, "n"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"stop": ["1", "2", "3", "4", "5"]}, "stop"),
        ({"service_tier": "gold"}, "service_tier"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "alien", "content": "x"}]}, "messages[0].role"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"extra_body": {"unknown_field": 1}}, None),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_told_by_name(client: OpenAI, model: str, options: dict[str, Any], param: str | None) -> None:
    with pytest.raises(BadRequestError) as refused:
        client.chat.completions.create(**{"model": model, "messages": QUESTION, **options})
    assert (refused.value.param, refused.value.type) == (param, "invalid_request_error")


def test_a_rate_limit_says_when_to_come_back(product: Stack, model: str) -> None:
    keys = product.add_tenants({"one-a-minute": {"requests_per_minute": 1}})
    with product.client(api_key=keys["one-a-minute"]) as client:
        client.chat.completions.create(model=model, messages=QUESTION, max_tokens=1)
        with pytest.raises(RateLimitError) as refused:
            client.chat.completions.create(model=model, messages=QUESTION, max_tokens=1)
    error, headers = refused.value, refused.value.response.headers
    assert (error.status_code, error.code, error.type) == (429, "rate_limit_exceeded", "rate_limit_error")
    assert 1 <= int(headers["retry-after"]) <= 60
    assert 0 < int(headers["retry-after-ms"]) <= 60_000
    assert headers["x-ratelimit-limit-requests"] == "1"
    assert headers["x-ratelimit-remaining-requests"] == "0"


def test_a_token_limit_that_no_wait_can_meet_is_not_retried(product: Stack, model: str) -> None:
    keys = product.add_tenants({"ten-tokens": {"tokens_per_minute": 10}})
    with product.client(api_key=keys["ten-tokens"], max_retries=2) as client, pytest.raises(RateLimitError) as refused:
        client.chat.completions.create(model=model, messages=QUESTION, max_tokens=100)
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"


def test_the_client_waits_out_a_concurrency_limit_by_itself(product: Stack, model: str, slow: dict[str, Any]) -> None:
    keys = product.add_tenants({"one-at-once": {"max_concurrent": 1}})
    with product.client(api_key=keys["one-at-once"], max_retries=2) as client:
        held = client.chat.completions.create(model=model, messages=QUESTION, stream=True, **slow)
        next(iter(held))
        with pytest.raises(RateLimitError):
            client.with_options(max_retries=0).chat.completions.create(model=model, messages=QUESTION, max_tokens=1)
        held.close()
        assert client.chat.completions.create(model=model, messages=QUESTION, max_tokens=1).choices


def test_a_model_outside_the_plan_is_told(product: Stack, model: str) -> None:
    keys = product.add_tenants({"other-model": {"allowed_models": ["other"]}})
    with product.client(api_key=keys["other-model"]) as client:
        assert client.models.list().data == []
        with pytest.raises(PermissionDeniedError) as refused:
            client.chat.completions.create(model=model, messages=QUESTION)
    assert refused.value.code == "model_not_allowed"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.stack
def test_a_failing_engine_is_an_error_to_the_client(sim: Stack, stream: bool) -> None:
    with sim.client() as client, pytest.raises(APIStatusError) as failed:
        client.chat.completions.create(
            model="smollm2-135m-instruct", messages=QUESTION, stream=stream, metadata={"sim": "error=500"}
        )
    assert failed.value.status_code == 502
    assert failed.value.code == "engine_failed"


# --- not waited for ---------------------------------------------------------------------------------------------------


def test_a_timeout_of_the_client_ends_the_work(
    product: Stack, client: OpenAI, model: str, slow: dict[str, Any]
) -> None:
    before = outcomes(product)
    with pytest.raises(APITimeoutError):
        client.with_options(timeout=1.0).chat.completions.create(model=model, messages=QUESTION, **slow)
    wait_until(lambda: is_free(product), FREE_S)
    new = wait_until(lambda: outcomes(product).items() - before.items(), SETTLE_S)
    assert [outcome for _, outcome in new] == ["cancelled"]


@pytest.mark.stack
def test_a_stream_that_stays_silent_times_out(sim: Stack) -> None:
    silent: dict[str, Any] = {"metadata": {"sim": "delay=600"}}
    with sim.client(timeout=1.0) as client, pytest.raises(APITimeoutError):
        client.chat.completions.create(model="smollm2-135m-instruct", messages=QUESTION, stream=True, **silent)
    wait_until(lambda: is_free(sim), FREE_S)


def test_a_closed_stream_ends_the_work_and_is_charged(
    product: Stack, client: OpenAI, model: str, slow: dict[str, Any]
) -> None:
    stream = client.chat.completions.create(model=model, messages=QUESTION, stream=True, **slow)
    request_id = stream.response.headers["x-request-id"]
    for _ in range(4):
        next(stream)
    stream.close()
    wait_until(lambda: is_free(product), FREE_S)
    columns = "request_id, outcome, completion_tokens"
    ((outcome, tokens),) = wait_until(
        lambda: [row[1:] for row in product.usage_rows(columns) if row[0] == request_id], SETTLE_S
    )
    assert outcome == "cancelled"
    assert 3 <= tokens < LONG["max_tokens"]


async def test_a_cancelled_task_ends_the_work(product: Stack, model: str, slow: dict[str, Any]) -> None:
    async with product.async_client() as client:
        asking = asyncio.ensure_future(client.chat.completions.create(model=model, messages=QUESTION, **slow))
        await asyncio.to_thread(wait_until, lambda: not is_free(product), SETTLE_S)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    await asyncio.to_thread(wait_until, lambda: is_free(product), FREE_S)
