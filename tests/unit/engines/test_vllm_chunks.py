import json
from typing import Literal

import pytest

from domain.usage import Usage
from workers.engines.port import Job
from workers.engines.vllm_chunks import last_chunks, with_delivered

USAGE_CHUNK = b'{"choices":[],"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2}}'


def test_delivered_tokens_are_added_where_usage_is_stated() -> None:
    usage = json.loads(with_delivered(USAGE_CHUNK, 4))["usage"]

    assert usage == {"prompt_tokens": 3, "total_tokens": 9, "completion_tokens": 6}


@pytest.mark.parametrize("data", [b'{"choices":[{"delta":{"content":"x"}}]}', b'{"choices":[],"usage":null}'])
def test_other_chunks_stay_as_they_are(data: bytes) -> None:
    assert with_delivered(data, 4) is data
    assert with_delivered(USAGE_CHUNK, 0) is USAGE_CHUNK


@pytest.mark.parametrize(("endpoint", "prefix"), [("chat", "chatcmpl-"), ("completions", "cmpl-")])
def test_an_exhausted_stream_ends_with_length(endpoint: Literal["chat", "completions"], prefix: str) -> None:
    job = Job("an-id", endpoint, b"{}", stream=True)
    end, usage = [json.loads(data) for data in last_chunks(job, "m", Usage(3, 0, 4), include_usage=True)]

    assert end["id"] == usage["id"] == f"{prefix}an-id"
    assert end["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"] == {"prompt_tokens": 3, "total_tokens": 7, "completion_tokens": 4}
    assert len(list(last_chunks(job, "m", Usage(), include_usage=False))) == 1
