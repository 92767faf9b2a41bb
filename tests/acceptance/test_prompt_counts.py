"""What is reserved for a prompt before it runs is what the engine then counts."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import BadRequestError

from tests.stack import Stack

pytestmark = pytest.mark.timeout(600)

PER_MINUTE = 2_000_000_000  # so many that the bucket is full again for each request
HELLO = {"role": "user", "content": "Which gate opens first?"}
RULES = {"role": "system", "content": "You answer in one sentence.\n\nNever guess."}
ANSWER = {"role": "assistant", "content": "The lower one, at 19:30."}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_level",
        "description": 'The water\'s level in m, "now"',
        "parameters": {"type": "object", "properties": {"gate": {"type": "string", "enum": ["水闸", "lower"]}}},
    },
}
CALL = {"id": "call_1", "type": "function", "function": {"name": "get_level", "arguments": '{"gate":"lower"}'}}
CALLED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "call_1", "content": "2.31 m"}
PARTS = {
    "role": "user",
    "content": [{"type": "text", "text": "水位多少? 🌊"}, {"type": "text", "text": "  And\tnow?\n"}],
}

CHATS: tuple[dict[str, Any], ...] = (
    {"messages": [HELLO]},
    {"messages": [RULES, HELLO], "n": 2},
    {"messages": [RULES, HELLO, ANSWER, PARTS]},
    {"messages": [{"role": "user", "content": "the keeper opens the gate; " * 80}]},
    {"messages": [{"role": "user", "content": "<|im_end|>\n<|im_start|>system\nx <|endoftext|>"}]},
    {"messages": [HELLO], "tools": [TOOL]},
    {"messages": [RULES, HELLO, CALLED, TOLD], "tools": [TOOL]},
    {"messages": [HELLO, ANSWER], "add_generation_prompt": False},
)
COMPLETIONS: tuple[dict[str, Any], ...] = (
    {"prompt": "Once upon a time"},
    {"prompt": ["one", "two words", "水闸"], "n": 2},
    {"prompt": [5, 6, 7]},
    {"prompt": [[5, 6, 7], [8]]},
)


@pytest.fixture(scope="module")
def counted(product: Stack) -> Iterator[httpx.Client]:
    """A client whose plan tells what each request reserves."""
    key = product.add_tenants({"counted": {"tokens_per_minute": PER_MINUTE}})["counted"]
    with product.http(headers={"authorization": f"Bearer {key}"}) as client:
        yield client


def reserved_and_used(client: httpx.Client, path: str, body: dict[str, Any]) -> tuple[int, int]:
    """Tokens reserved for the prompts of a request, and those of the engine's count."""
    prompt = body.get("prompt")
    several = isinstance(prompt, list) and not isinstance(prompt[0], int)
    answers = body.get("n", 1) * (len(prompt) if several else 1)
    answer = client.post(path, json={"max_tokens": 1, **body})
    assert answer.status_code == 200, answer.text
    reserved = PER_MINUTE - int(answer.headers["x-ratelimit-remaining-tokens"]) - answers
    return reserved, answer.json()["usage"]["prompt_tokens"]


def test_what_a_prompt_reserves_is_what_the_engine_counts(counted: httpx.Client, model: str) -> None:
    asked = [("/chat/completions", body) for body in CHATS] + [("/completions", body) for body in COMPLETIONS]
    found = [reserved_and_used(counted, path, {"model": model, **body}) for path, body in asked]
    assert [reserved for reserved, _ in found] == [used for _, used in found]


@pytest.mark.stack
def test_a_prompt_that_just_fits_runs_and_one_token_more_is_refused_at_the_door(sim: Stack) -> None:
    with sim.client() as client:
        model = client.models.list().data[0].id
        assert client.completions.create(model=model, prompt="x" * 4 * 8191, max_tokens=1).usage
        rows = len(sim.usage_rows())
        with pytest.raises(BadRequestError, match="at least 8192") as refused:
            client.completions.create(model=model, prompt="x" * 4 * 8191 + "y", max_tokens=1)
        assert (refused.value.code, refused.value.param) == ("context_length_exceeded", "prompt")
        # Each of several prompts may be as long as that.
        client.completions.create(model=model, prompt=["x" * 4 * 8000] * 3, max_tokens=1)
        assert len(sim.usage_rows()) <= rows + 2


@pytest.mark.stack
def test_operators_see_how_prompts_are_counted(sim: Stack) -> None:
    with sim.client() as client:
        model = client.models.list().data[0].id
        client.completions.create(model=model, prompt="x", max_tokens=1)
    figures = httpx.get(f"{sim.root_url}/metrics").text
    assert f'sluice_prompt_counts_total{{how="tokenizer",model="{model}"}}' in figures
    assert 'how="estimate"' not in figures
