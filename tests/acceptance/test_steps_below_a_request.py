"""Below a request: what its engine did meanwhile; and the stages of its way are the time that its client waited."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest

from domain.trace.stages import AFTER_FIRST_TOKEN, STAGES
from domain.trace.step import Step
from tests.stack import Stack, wait_until
from tracing.store.packing import unpack_lengths
from tracing.store.step_packing import unpack_steps

WORDS = 800
REQUESTS = 3
ANSWER_TOKENS = 12


@dataclass(frozen=True, slots=True)
class Asked:
    """A stream as its client saw it, and as it was stored."""

    waited_us: float
    started_us: int
    duration_us: int
    ttft_us: int
    lengths_us: tuple[int, ...]


def ask(client: httpx.Client, words: int, number: int = 0) -> tuple[str, float]:
    """Stream a completion of a prompt that no cache knows; its id, and microseconds until the first piece."""
    prompt = f"{number} " + "The keeper opens the gate. " * (words // 5)
    body = {"model": "smollm2-135m-instruct", "prompt": prompt, "stream": True, "max_tokens": ANSWER_TOKENS}
    begun = time.perf_counter()
    with client.stream("POST", "/completions", json=body | {"ignore_eos": True, "temperature": 0}) as response:
        lines = response.iter_lines()
        assert next(lines).startswith("data: {")
        waited_us = 1_000_000 * (time.perf_counter() - begun)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    return response.headers["x-request-id"], waited_us


def stored(stack: Stack, request_id: str, waited_us: float) -> Asked:
    found = wait_until(
        lambda: stack.query(
            "SELECT started_us, duration_us, ttft_us, lengths FROM tracing_storedrequest"
            f" WHERE request_id = '{request_id}'"
        ),
        20,
        "the request was never stored",
    )
    started_us, duration_us, ttft_us, lengths = found[0]
    return Asked(waited_us, started_us, duration_us, ttft_us, unpack_lengths(lengths))


def steps_of(stack: Stack, request: Asked) -> list[Step]:
    """Steps that ended while the request was under way."""
    packed = stack.query("SELECT packed FROM tracing_enginesteps ORDER BY id")
    end_us = request.started_us + request.duration_us
    return [step for (one,) in packed for step in unpack_steps(one)[0] if request.started_us < step.ended_us < end_us]


@pytest.fixture(scope="module")
def client(product: Stack) -> Iterator[httpx.Client]:
    """Its connection is open already, so that what is measured is the request alone."""
    with product.http() as made:
        ask(made, words=10)
        yield made


@pytest.fixture(scope="module")
def requests(product: Stack, client: httpx.Client) -> list[Asked]:
    """Long prompts, one after the other."""
    return [stored(product, *ask(client, WORDS, 1 + number)) for number in range(REQUESTS)]


def test_the_steps_of_an_engine_are_stored_with_what_they_made(product: Stack, requests: list[Asked]) -> None:
    for request in requests:
        steps = wait_until(
            lambda request=request: _all_of(steps_of(product, request)), 20, "its steps were never stored"
        )
        assert sum(step.prompt_tokens for step in steps) > WORDS
        assert all(step.duration_us > 0 for step in steps)
        assert all(step.running > 0 for step in steps if step.generated_tokens)
        # One after the other, they cannot last longer than the request did.
        assert sum(step.duration_us for step in steps[1:]) <= request.duration_us


def _all_of(steps: list[Step]) -> list[Step]:
    """All steps of an answer, or none while some are missing."""
    return steps if sum(step.generated_tokens for step in steps) >= ANSWER_TOKENS else []


@pytest.mark.vllm
@pytest.mark.parametrize("product", ["real"], indirect=True)
def test_each_step_of_vllm_tells_the_time_inside_the_model(product: Stack, requests: list[Asked]) -> None:
    for request in requests:
        steps = wait_until(lambda request=request: _all_of(steps_of(product, request)), 20)
        assert all(0 < step.model_us <= step.duration_us for step in steps)
        assert sum(step.model_us for step in steps) > 0.5 * sum(step.duration_us for step in steps)


@pytest.mark.vllm
@pytest.mark.parametrize("product", ["real"], indirect=True)
def test_the_stages_add_up_to_what_the_client_waited(requests: list[Asked]) -> None:
    off = []
    for request in requests:
        stages = zip(STAGES, request.lengths_us, strict=True)
        assert sum(length for stage, length in stages if stage not in AFTER_FIRST_TOKEN) == request.ttft_us
        assert sum(request.lengths_us) == request.duration_us
        off.append(abs(request.ttft_us / request.waited_us - 1))
    assert statistics.median(off) < 0.02, off
