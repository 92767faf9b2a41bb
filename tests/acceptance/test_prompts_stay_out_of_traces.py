"""What a tenant asks and gets is in no trace, log, metric or message; what it keeps here in files goes with these."""

import base64
import json
import re
import secrets
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance import batches
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


def test_what_a_batch_asks_and_gets_lies_in_its_files_alone_and_goes_with_them(bulk: Stack) -> None:
    word = f"Turmeric{secrets.token_hex(6)}"
    lines = [
        batches.chat(f"{word}-{number}", f"Say {word}", sim="tokens=20,itl=0.05", max_tokens=40, user=word)
        for number in range(60)
    ]
    lines += [batches.chat("broken", f"Say {word}", sim="die_after=2"), batches.chat("wrong", stop=[word] * 9)]
    with bulk.client() as client:
        with overheard(bulk, {1, 2}) as commands:
            ended = batches.run(client, lines)
        output, errors = batches.check_each_once(client, ended, lines)
        assert len(errors) == 2
        answer = str(output[0]["response"]["body"]["choices"][0]["message"]["content"])
        assert len(answer) > 40
        batches.rows_of(bulk, ended)
        statement = f"SELECT 1 FROM tracing_storedrequest WHERE trace_id = '{ended.trace_id}'"
        wait_until(lambda: len(bulk.query(statement)) >= 64, 20, "some were not stored")
        key = bulk.api_key.rsplit("-", 1)[1]

        bodies = [base64.b64decode(body) for one in commands for body in BODY.findall(one)]
        places = {**elsewhere(bulk), "messages": b"\n".join(bodies), "commands": "\n".join(commands).encode()}
        for place in ("messages", "commands", "database"):
            assert ended.id.encode() in places[place]
        for secret in (word, answer, key):
            assert [name for name, text in places.items() if secret.encode() in text] == []
        texts = kept_files(bulk)
        assert [len([text for text in texts if part.encode() in text]) for part in (word, answer, key)] == [2, 1, 0]

        for file_id in (ended.input_file_id, ended.output_file_id, ended.error_file_id):
            assert client.files.delete(file_id).deleted
    texts = kept_files(bulk)
    assert [text for text in texts for part in (word, answer) if part.encode() in text] == []
    assert not (bulk.data_dir / "files" / "jobs" / ended.id).exists()


BODY = re.compile(r'"body": ?"([A-Za-z0-9+/=]+)"')
"""Of a Celery message."""


@contextmanager
def overheard(stack: Stack, dbs: set[int]) -> Iterator[list[str]]:
    """What is done meanwhile in some databases of the store: those of messages and of tasks' results."""
    commands: list[str] = []
    last = f"the end of {secrets.token_hex(8)}"

    def listen(monitor: Any) -> None:
        for command in monitor.listen():
            if command["db"] in dbs:
                commands.append(command["command"])
            if last in command["command"]:
                return

    with stack.store() as store, store.monitor() as monitor:
        listening = threading.Thread(target=listen, args=(monitor,), daemon=True)
        listening.start()
        try:
            yield commands
        finally:
            store.echo(last)
            listening.join(20)


def elsewhere(stack: Stack) -> dict[str, bytes]:
    """All that the instance wrote, tenants' files and its own secrets apart, and what its processes tell."""
    store: Any = stack.store()
    store.bgrewriteaof()  # what is over is then gone from the store's file too
    wait_until(lambda: store.info("persistence")["aof_rewrite_in_progress"] == 0, 20)
    apart = {"files", "secrets"}
    found = {
        str(path.relative_to(stack.data_dir)): path.read_bytes()
        for path in stack.data_dir.rglob("*")
        if path.is_file() and path.name != "ready.json" and not apart & set(path.relative_to(stack.data_dir).parts)
    }
    with sqlite3.connect(stack.data_dir / "sluice.sqlite3") as database:
        found["database"] = "\n".join(database.iterdump()).encode()
    packed = stack.query("SELECT moments FROM tracing_storedrequest WHERE moments IS NOT NULL")
    found["moments"] = "".join(repr(unpack_moments(moments)) for (moments,) in packed).encode()
    for target in json.loads((stack.data_dir / "prometheus_targets.json").read_text()):
        (address,) = target["targets"]
        found[f"metrics of {address}"] = httpx.get(f"http://{address}/metrics", timeout=20).content
    return found


def kept_files(stack: Stack) -> list[bytes]:
    """What lies in the directory of tenants' files."""
    root: Path = stack.data_dir / "files"
    return [path.read_bytes() for path in root.rglob("*") if path.is_file()]
