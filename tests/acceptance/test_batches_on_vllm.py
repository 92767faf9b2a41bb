"""A batch on the real engine gives what its requests give one by one.

In float32, where a batch computes what each of its sequences would alone.
"""

from typing import Any

import pytest

from tests.acceptance import batches
from tests.acceptance.batches import CHAT, COMPLETIONS, line
from tests.stack import Stack, wait_until

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(400)]

TOPICS = ("rain", "the sea", "a lock", "a boat", "bread", "a bridge", "Paris", "snow", "a clock", "tea")


def said(choice: dict[str, Any]) -> tuple[str, str]:
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    return text, choice["finish_reason"]


@pytest.mark.parametrize("endpoint", [CHAT, COMPLETIONS])
def test_its_answers_are_those_of_the_same_requests_one_by_one(real: Stack, endpoint: str) -> None:
    with real.client() as client:
        model = client.models.list().data[0].id
        greedy: dict[str, Any] = {"model": model, "temperature": 0, "max_tokens": 8}
        asked: list[dict[str, Any]] = [
            {"messages": [{"role": "user", "content": f"Tell me about {topic}, {how}."}]}
            if endpoint == CHAT
            else {"prompt": f"Once there was {topic}, {how},"}
            for topic in TOPICS
            for how in ("briefly", "at length")
        ]
        create: Any = client.chat.completions.create if endpoint == CHAT else client.completions.create
        direct = [create(**greedy, **body).to_dict() for body in asked]
        lines = [line(f"q-{number}", endpoint, greedy | body) for number, body in enumerate(asked)]
        ended = batches.run(client, lines, endpoint)
        output, errors = batches.check_each_once(client, ended, lines)

    assert (ended.status, errors) == ("completed", [])
    bodies = [one["response"]["body"] for one in output]
    assert [said(body["choices"][0]) for body in bodies] == [said(answer["choices"][0]) for answer in direct]
    for name in ("prompt_tokens", "completion_tokens"):
        assert [body["usage"][name] for body in bodies] == [answer["usage"][name] for answer in direct]
    told = {one["response"]["request_id"] for one in output}
    statement = f"SELECT request_id FROM tracing_storedrequest WHERE trace_id = '{ended.trace_id}'"
    wait_until(lambda: {one for (one,) in real.query(statement)} == told, batches.SOON_S, "not all are in its trace")
