"""Bodies that no well-meaning client sends: each gets a 4xx in OpenAI's shape, and no neighbour notices."""

import json
import socket
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.acceptance import sse
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"
LIMIT = 10 * 1024 * 1024
USER = {"role": "user", "content": "hello"}


class Neighbour(threading.Thread):
    """Streams one answer after the other, and minds every flaw."""

    def __init__(self, stack: Stack, number: int) -> None:
        super().__init__(daemon=True)
        self._stack, self._text = stack, f"neighbour {number}"
        self._asked_to_end = threading.Event()
        self.answers: list[str] = []
        self.flaw: BaseException | None = None

    def run(self) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": self._text}], "stream": True}
        body["metadata"] = {"sim": "tokens=20,itl=0.01"}
        try:
            with self._stack.http() as client:
                while not self._asked_to_end.is_set():
                    self.answers.append(sse.strict_response(client.post("/chat/completions", json=body)).text)
        except BaseException as flaw:
            self.flaw = flaw

    def end(self) -> None:
        self._asked_to_end.set()
        self.join(timeout=30)


@pytest.fixture(scope="module", autouse=True)
def neighbours(sim: Stack) -> Iterator[None]:
    """Others who stream all the while; they are looked at in the end."""
    # A worker that has just become ready may still be about to take its name.
    workers = [child.pid for child in wait_until(lambda: sim.children("celeryd: worker-"), 20)]
    threads = [Neighbour(sim, number) for number in range(3)]
    for thread in threads:
        thread.start()
    yield
    for thread in threads:
        thread.end()
        assert thread.flaw is None, thread.flaw
        assert len(thread.answers) > 1
        assert len(set(thread.answers)) == 1
    assert [child.pid for child in sim.children("celeryd: worker-")] == workers
    wait_until(lambda: sim.leftovers() == {}, 10)


def chat(**fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [USER], **fields}


def post(stack: Stack, body: bytes | dict[str, Any], path: str = "/chat/completions") -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with stack.http() as client:
        return client.post(path, content=content, headers={"content-type": "application/json"})


def raw(field: str) -> bytes:
    """A chat with one more field, spelled as given."""
    return json.dumps(chat()).encode()[:-1] + b", " + field.encode() + b"}"


REFUSED: dict[str, bytes | dict[str, Any]] = {
    "messages empty": chat(messages=[]),
    "messages missing": {"model": MODEL},
    "messages null": chat(messages=None),
    "messages a string": chat(messages="hi"),
    "message not an object": chat(messages=["hi"]),
    "content null": chat(messages=[{"role": "user", "content": None}]),
    "content missing": chat(messages=[{"role": "user"}]),
    "content a number": chat(messages=[{"role": "user", "content": 5}]),
    "content empty list": chat(messages=[{"role": "user", "content": []}]),
    "content part unknown": chat(messages=[{"role": "user", "content": [{"type": "x"}]}]),
    "assistant without anything": chat(messages=[USER, {"role": "assistant", "content": None}]),
    "role unknown": chat(messages=[{"role": "king", "content": "x"}]),
    "role missing": chat(messages=[{"content": "x"}]),
    "model missing": {"messages": [USER]},
    "model empty": chat(model=""),
    "model a number": chat(model=5),
    "unknown field": chat(frobnicate=True),
    **{f"max_tokens {value}": chat(max_tokens=value) for value in (0, -1, 10**12, "5", 1.5, True, [])},
    **{f"n {value}": chat(n=value) for value in (0, -1, 1000, "2", 10**30)},
    "stream a string": chat(stream="yes"),
    "stop too many": chat(stop=list("abcde")),
    "logprobs without": chat(top_logprobs=3),
    "stream_options alone": chat(stream_options={"include_usage": True}),
    "seed too large": chat(seed=2**70),
    "metadata not text": chat(metadata={"a": 1}),
    "fault unknown": chat(metadata={"sim": "explode"}),
    "tool choice without tools": chat(tool_choice="required"),
    "empty body": b"",
    "truncated": json.dumps(chat()).encode()[:-7],
    "an array": b"[]",
    "a string": b'"hi"',
    "null": b"null",
    "byte order mark": b"\xef\xbb\xbf" + json.dumps(chat()).encode(),
    "utf-16": json.dumps(chat()).encode("utf-16"),
    "not utf-8": raw('"user": "\xff"').replace("\xff".encode(), b"\xff"),
    "half a surrogate": raw('"user": "\\ud800"'),
    "NUL": b"\x00",
    "duplicate keys": raw('"model": "other"'),
    "trailing garbage": json.dumps(chat()).encode() + b"x",
    "two objects": json.dumps(chat()).encode() * 2,
    "single quotes": b"{'model': 'x'}",
    "nested arrays": raw('"user": ' + "[" * 10_000 + "]" * 10_000),
    "nested objects": raw('"user": ' + '{"a":' * 10_000 + "1" + "}" * 10_000),
    "nested unclosed": b"[" * 100_000,
    "nested schema": chat(
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": json.loads("[" * 500 + "]" * 500)},
        }
    ),
    **{
        f"temperature {value}": raw(f'"temperature": {value}')
        for value in ("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "999999.0", "-0.5", '"hot"')
    },
    "top_p -1": raw('"top_p": -1'),
    "top_p 0": raw('"top_p": 0'),
    "top_k 0.01": raw('"top_k": 0.01'),
    "top_k huge": raw('"top_k": 1e300'),
    "logit_bias NaN": raw('"logit_bias": {"1": NaN}'),
    "logit_bias 1e999": raw('"logit_bias": {"1": 1e999}'),
    "logit_bias a word": raw('"logit_bias": {"one": 1}'),
    "presence_penalty": raw('"presence_penalty": 1e5'),
    "repetition_penalty 0": raw('"repetition_penalty": 0'),
    "an integer of 5000 digits": raw('"seed": ' + "9" * 5000),
    "a float of 5000 digits": raw('"temperature": 0.' + "9" * 5000 + "e5000"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_body_is_refused(sim: Stack, name: str) -> None:
    response = post(sim, REFUSED[name])
    error = sse.error_of(response)
    assert response.status_code == 400, error
    assert error["type"] == "invalid_request_error"
    assert len(response.content) < 2000


@pytest.mark.parametrize(
    "name", ["messages empty", "temperature NaN", "nested arrays", "logit_bias 1e999", "truncated"]
)
def test_what_the_gateway_refuses_is_never_admitted(sim: Stack, name: str) -> None:
    response = post(sim, REFUSED[name])
    post(sim, chat(max_tokens=1))  # settled after it, if there is anything to settle
    wait_until(lambda: sim.store().xlen("sl:settle") == 0, 10)
    assert response.headers["x-request-id"] not in {row[0] for row in sim.usage_rows()}


COMPLETIONS: dict[str, dict[str, Any]] = {
    "prompt missing": {},
    "prompt null": {"prompt": None},
    "prompt empty list": {"prompt": []},
    "prompt of mixed kinds": {"prompt": ["a", 1]},
    "prompt token negative": {"prompt": [-1]},
    "prompt token huge": {"prompt": [2**40]},
    "prompt empty tokens": {"prompt": [[]]},
    "too many prompts": {"prompt": ["a"] * 129},
    "max_tokens 0 with echo": {"prompt": "a", "max_tokens": 0, "echo": True},
    "logprobs too many": {"prompt": "a", "logprobs": 6},
    "best_of less than n": {"prompt": "a", "n": 3, "best_of": 2},
}


@pytest.mark.parametrize("name", COMPLETIONS)
def test_a_wrong_completion_is_refused(sim: Stack, name: str) -> None:
    response = post(sim, {"model": MODEL, **COMPLETIONS[name]}, "/completions")
    assert response.status_code == 400, response.text
    assert sse.error_of(response)["message"]


ACCEPTED: dict[str, bytes | dict[str, Any]] = {
    "max_tokens null": chat(max_tokens=None),
    "n null": chat(n=None),
    "assistant with empty content": chat(messages=[USER, {"role": "assistant", "content": ""}, USER]),
    "content as parts": chat(messages=[{"role": "user", "content": [{"type": "text", "text": "a"}] * 3}]),
    "content null with tool calls": chat(
        messages=[
            USER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "42"},
        ]
    ),
    "a whole surrogate pair": raw('"user": "\\ud83d\\ude42"'),
    "white space around": b" \r\n\t" + json.dumps(chat()).encode() + b"\n\n",
    "31 KB": chat(messages=[{"role": "user", "content": "x" * 31_000}]),
    "33 KB of white space": json.dumps(chat()).encode() + b" " * 33_000,
    "9 MB of white space": json.dumps(chat()).encode() + b" " * 9_000_000,
    "exactly the limit": json.dumps(chat()).encode().ljust(LIMIT),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_an_odd_body_that_is_right_is_answered(sim: Stack, name: str) -> None:
    response = post(sim, ACCEPTED[name])
    assert response.status_code == 200, response.text
    assert response.json()["choices"][0]["finish_reason"]


def test_an_unknown_model_is_not_found(sim: Stack) -> None:
    response = post(sim, chat(model="../../etc/passwd"))
    assert response.status_code == 404
    assert sse.error_of(response)["code"] == "model_not_found"


@pytest.mark.parametrize("size", [33_000, 1_000_000, 9_000_000])
def test_a_prompt_too_long_for_the_model_is_the_models_to_refuse(sim: Stack, size: int) -> None:
    response = post(sim, chat(messages=[{"role": "user", "content": "x" * size}]))
    assert response.status_code == 400
    assert sse.error_of(response)["code"] == "context_length_exceeded"


@pytest.mark.parametrize("excess", [1, 1_000_000, 8 * LIMIT])
def test_a_body_over_the_limit_is_too_large(sim: Stack, excess: int) -> None:
    memory = sum(child.memory_info().rss for child in sim.children("serve --fd"))
    with sim.http() as client:
        response = client.post("/chat/completions", content=_pieces(LIMIT + excess))
        assert response.status_code == 413
        assert sse.error_of(response)["code"] == "request_too_large"
        again = client.post("/chat/completions", json=chat(max_tokens=1))
        assert again.status_code == 200
    assert sum(child.memory_info().rss for child in sim.children("serve --fd")) < memory + 6 * LIMIT


def _pieces(size: int) -> Iterator[bytes]:
    for start in range(0, size, 65_536):
        yield b" " * min(65_536, size - start)


def test_an_announced_body_over_the_limit_is_too_large_and_the_connection_goes_on(sim: Stack) -> None:
    with sim.http() as client:
        response = client.post("/chat/completions", content=b" " * (LIMIT + 1))
        assert response.status_code == 413
        assert sse.error_of(response)["code"] == "request_too_large"
        assert client.post("/chat/completions", json=chat(max_tokens=1)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/chat/completions", 405), ("POST", "/chat/completion", 404), ("POST", "/models", 405)],
)
def test_a_wrong_address_is_told_in_the_same_shape(sim: Stack, method: str, path: str, status: int) -> None:
    with sim.http() as client:
        response = client.request(method, path, json=chat())
    assert response.status_code == status
    assert sse.error_of(response)["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer " + "x" * 8000},
        {"authorization": "Bearer sk-sluice-%00"},
        {"authorization": "Basic dTpw"},
        {"authorization": ""},
    ],
)
def test_a_wrong_key_is_refused_before_the_body_is_read(sim: Stack, headers: dict[str, str]) -> None:
    response = httpx.post(f"{sim.base_url}/chat/completions", content=b"[" * 1000, headers=headers, timeout=30)
    assert response.status_code == 401
    assert sse.error_of(response)["code"] in {"invalid_api_key", "missing_api_key"}


MARK = "spoofed-4711"
SPOOFED = [
    ("x-priority", f"P0 {MARK}"),
    ("x-priority", "0"),
    ("x-tenant", MARK),
    ("x-tenant-id", "1"),
    ("x-qos-class", "p0"),
    ("x-model-version", MARK),
    ("x-upstream", f"http://127.0.0.1:1/{MARK}"),
    ("x-gateway-destination-endpoint", "127.0.0.1:1"),
    ("x-forwarded-for", "203.0.113.9"),
    ("x-forwarded-for", "203.0.113.10"),
    ("x-request-id", MARK),
    ("x-request-id", MARK * 850),
    ("baggage", f"tenant={MARK}"),
]


@pytest.fixture(scope="module")
def keys(sim: Stack) -> dict[str, str]:
    """Of a tenant that gets no P0, of two that share no cached prompts, and of two that do."""
    shared = {"cache_sharing": "shared"}
    plans = {"modest": {"best_class": "p1"}, "apart-1": {}, "apart-2": {}, "sharing-1": shared, "sharing-2": shared}
    return sim.add_tenants(plans)


def test_headers_choose_neither_tenant_nor_class_nor_engine_and_leave_no_trace(
    sim: Stack, keys: dict[str, str]
) -> None:
    headers = [("authorization", f"Bearer {keys['modest']}"), ("content-type", "application/json"), *SPOOFED]
    content = json.dumps(chat(max_tokens=1, service_tier="priority"))
    answer = httpx.post(f"{sim.base_url}/chat/completions", content=content, headers=headers, timeout=60)

    assert (answer.status_code, answer.json()["service_tier"]) == (200, "default")
    assert MARK not in str(answer.headers.raw) + answer.text
    request_id = answer.headers["x-request-id"]
    wait_until(lambda: any(row[0] == request_id for row in sim.usage_rows()), 10)
    rows = sim.usage_rows("request_id, qos_class, tenant_id")
    found = next(row for row in rows if row[0] == request_id)
    assert found[1] == "p1"
    assert [row[2] for row in rows].count(found[2]) == 1
    store = sim.store()
    assert not any(MARK.encode() in name for name in store.scan_iter(count=1000))
    assert MARK not in httpx.get(f"{sim.root_url}/metrics", timeout=20).text
    assert not [path for path in sim.data_dir.rglob("*.log") if MARK.encode() in path.read_bytes()]


@pytest.mark.parametrize("sent", [b"a\r\n b", b"\xff\xfe", "übergröße".encode(), b"a\x00b", b"x" * 70_000])
def test_a_request_id_that_is_no_text_reaches_nobody(sim: Stack, sent: bytes) -> None:
    where = urlsplit(sim.base_url)
    head = b"GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\nauthorization: Bearer %b\r\n"
    with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
        connection.sendall(head % sim.api_key.encode() + b"x-request-id: %b\r\n\r\n" % sent)
        got = b""
        while more := connection.recv(65_536):
            got += more
    status = got.split(b" ", 2)[1]
    assert status in (b"200", b"400", b"431")
    assert sent not in got.partition(b"\r\n\r\n")[0]
    assert got.lower().count(b"x-request-id:") == (1 if status == b"200" else 0)


def cached_tokens(answer: httpx.Response) -> int:
    assert answer.status_code == 200, answer.text
    return int((answer.json()["usage"].get("prompt_tokens_details") or {}).get("cached_tokens") or 0)


def told_of_the_answer(answer: httpx.Response) -> dict[str, str]:
    """Headers that do not differ from one request to the next anyway."""
    always_new = ("x-request-id", "traceresponse", "x-sluice-batch-id", "date", "openai-processing-ms")
    return {name: value for name, value in answer.headers.items() if name not in always_new}


def test_what_one_tenant_sent_is_no_hit_for_another_unless_both_share(sim: Stack, keys: dict[str, str]) -> None:
    body = chat(messages=[{"role": "user", "content": "The lock keeper counts boats. " * 40}], max_tokens=4, seed=1)

    def ask(tenant: str) -> httpx.Response:
        headers = {"authorization": f"Bearer {keys[tenant]}"}
        return httpx.post(f"{sim.base_url}/chat/completions", json=body, headers=headers, timeout=60)

    first, again, other = ask("apart-1"), ask("apart-1"), ask("apart-2")
    assert (cached_tokens(first), cached_tokens(other)) == (0, 0)
    assert cached_tokens(again) > 0
    assert told_of_the_answer(other) == told_of_the_answer(first)
    assert other.json()["choices"] == first.json()["choices"]

    assert cached_tokens(ask("sharing-1")) == 0
    assert cached_tokens(ask("sharing-2")) > 0


def test_a_header_that_is_no_http_is_refused_and_serves_the_next(sim: Stack) -> None:
    where = urlsplit(sim.base_url)
    with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
        connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nx-request-id: a\r b\r\n\r\n")
        assert b" 400 " in connection.recv(65_536).split(b"\r\n")[0]
    assert post(sim, chat(max_tokens=1)).status_code == 200
