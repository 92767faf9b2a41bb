"""Answers that go on where an earlier attempt stopped, in OpenAI's shape."""

from collections.abc import Iterator
from time import time

import orjson

from domain.usage import Usage
from workers.engines.port import Job


def with_delivered(data: bytes, delivered_tokens: int) -> bytes:
    """Add what earlier attempts delivered to the usage in ``data``, where it holds any."""
    if not delivered_tokens or b'"usage":{' not in data:
        return data
    answer = orjson.loads(data)
    usage = answer["usage"]
    usage["completion_tokens"] += delivered_tokens
    usage["total_tokens"] += delivered_tokens
    return orjson.dumps(answer)


def last_chunks(job: Job, model: str, usage: Usage, include_usage: bool) -> Iterator[bytes]:
    """The end of a stream of which every token that the client allowed was delivered before."""
    chat = job.endpoint == "chat"
    chunk = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{job.request_id}",
        "object": "chat.completion.chunk" if chat else "text_completion",
        "created": int(time()),
        "model": model,
    }
    said: dict[str, object] = {"delta": {}} if chat else {"text": ""}
    yield orjson.dumps({**chunk, "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": "length"}]})
    if include_usage:
        counts = {
            "prompt_tokens": usage.prompt_tokens,
            "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            "completion_tokens": usage.completion_tokens,
        }
        yield orjson.dumps({**chunk, "choices": [], "usage": counts})
