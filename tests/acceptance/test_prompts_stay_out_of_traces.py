"""What a tenant asks and gets is in no trace, log or metric."""

import secrets
import sqlite3

import pytest

from tests.stack import Stack, wait_until
from tracing.store.packing import unpack_moments

pytestmark = pytest.mark.stack


def test_no_word_of_a_prompt_or_an_answer_is_in_traces_logs_or_metrics(sim: Stack) -> None:
    word = f"Saffron{secrets.token_hex(6)}"
    with sim.client() as client:
        for stream in (False, True):
            answer = client.chat.completions.with_raw_response.create(
                model="smollm2-135m-instruct",
                messages=[{"role": "user", "content": f"Say {word}"}],
                user=word,
                stream=stream,
                max_tokens=5,
                extra_headers={"baggage": f"secret={word}", "tracestate": f"x={word}"},
            )
            answer.http_response.read()
            request_id = answer.headers["x-request-id"]
    statement = f"SELECT 1 FROM tracing_storedrequest WHERE request_id = '{request_id}'"
    wait_until(lambda: sim.query(statement), 20, "it was not stored")
    with sqlite3.connect(sim.data_dir / "sluice.sqlite3") as database:
        dumped = "\n".join(database.iterdump())
    assert request_id in dumped
    assert word not in dumped
    packed = [
        moments for (moments,) in sim.query("SELECT moments FROM tracing_storedrequest WHERE moments IS NOT NULL")
    ]
    assert [record for moments in packed if word in repr(record := unpack_moments(moments))] == []
    logs = {path.name: path.read_bytes() for path in (sim.data_dir / "logs").iterdir() if path.is_file()}
    assert request_id.encode() in logs["tenant-metrics.jsonl"]
    assert [name for name, text in logs.items() if word.encode() in text] == []
    with sim.http(base_url=sim.root_url) as web:
        assert word not in web.get("/metrics").text
