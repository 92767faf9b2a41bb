"""Embeddings as the official client gets them, from the real model behind the whole product."""

import base64
import json
import os
import secrets
import struct
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from math import isclose, sqrt
from pathlib import Path
from typing import Any

import httpx
import pytest
from openai import BadRequestError, OpenAI

from domain.trace.stages import STAGES, Stage
from tests import stack
from tests.acceptance import batches
from tests.acceptance.test_published_suites import RUN_S, SUITE_KEY, add_key, read_report
from tests.acceptance.test_published_suites import suite as suite
from tests.stack import Stack, wait_until
from tracing.store.packing import unpack_lengths

pytest.importorskip("torch", reason="comes with the engine's requirements")

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

MODEL, ALIAS, SIZE = "all-minilm-l6-v2", "text-embedding-3-small", 384
TEXTS = ["A boat on a river", "A ship upon the water", "Income tax is due in May"]


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product with the engine for embeddings alone, which also has the name that programs are written with."""
    data_dir = tmp_path_factory.mktemp("embedder") / "data"
    environ = {"SLUICE_MODEL_ALIASES": ALIAS, "OMP_NUM_THREADS": "1"}
    options = ("--engine", "padded", "--model", MODEL, "--no-flower", "--bulk", "1")
    with stack.start(data_dir, *options, environ=environ) as running:
        yield running
        assert running.leftovers() == {}


@pytest.fixture(scope="module")
def client(embedder: Stack) -> Iterator[OpenAI]:
    with embedder.client() as made:
        yield made


def embed(client: OpenAI, given: Any, **options: Any) -> list[list[float]]:
    answer = client.embeddings.create(model=MODEL, input=given, **options)
    assert [entry.index for entry in answer.data] == list(range(len(answer.data)))
    return [entry.embedding for entry in answer.data]


def cosine(one: list[float], other: list[float]) -> float:
    lengths = sqrt(sum(x * x for x in one)) * sqrt(sum(x * x for x in other))
    return sum(x * y for x, y in zip(one, other, strict=True)) / lengths


def test_models_list_it(client: OpenAI) -> None:
    assert [model.id for model in client.models.list().data] == [MODEL, ALIAS]


def test_near_meanings_are_near(client: OpenAI) -> None:
    boat, ship, tax = embed(client, TEXTS)

    assert len(boat) == SIZE
    assert isclose(cosine(boat, boat), sum(x * x for x in boat), abs_tol=1e-5)
    assert cosine(boat, ship) > 0.5 > cosine(boat, tax)


def test_floats_and_base64_are_the_same_numbers(client: OpenAI, embedder: Stack) -> None:
    plain = embed(client, TEXTS, encoding_format="float")
    with embedder.http() as http:
        body = {"model": MODEL, "input": TEXTS, "encoding_format": "base64"}
        raw = [entry["embedding"] for entry in http.post("/embeddings", json=body).json()["data"]]
    decoded = [struct.unpack(f"<{SIZE}f", base64.b64decode(text)) for text in raw]

    assert embed(client, TEXTS) == [pytest.approx(row, abs=1e-6) for row in decoded]  # the client asks for base64
    assert plain == [pytest.approx(row, abs=1e-6) for row in decoded]


def test_usage_counts_the_tokens_of_all_inputs_and_no_padding(client: OpenAI, embedder: Stack) -> None:
    answer = client.embeddings.with_raw_response.create(model=ALIAS, input=["one", "one two three"])
    usage = answer.parse().usage

    assert (usage.prompt_tokens, usage.total_tokens) == (8, 8)
    request_id = answer.headers["x-request-id"]
    row = (request_id, "completed", 200, 8, 0)
    wait_until(lambda: row in embedder.usage_rows(), 20, "the request was never settled")


def test_a_batch_embeds_what_requests_embed_one_by_one(client: OpenAI) -> None:
    bodies: list[Any] = [{"model": MODEL, "input": text, "encoding_format": "float"} for text in TEXTS]
    direct: list[Any] = [client.embeddings.create(**body).to_dict() for body in bodies]
    lines = [batches.line(f"e-{number}", batches.EMBEDDINGS, body) for number, body in enumerate(bodies)]
    ended = batches.run(client, lines, batches.EMBEDDINGS)

    output, _ = batches.check_each_once(client, ended, lines)
    for one, answer in zip(output, direct, strict=True):
        (found,) = one["response"]["body"]["data"]
        assert found["embedding"] == pytest.approx(answer["data"][0]["embedding"], abs=1e-5)
    assert ended.usage.input_tokens == sum(answer["usage"]["prompt_tokens"] for answer in direct)
    assert ended.usage.output_tokens == 0


def test_a_request_is_traced_to_the_engine_and_back(embedder: Stack) -> None:
    trace_id = secrets.token_hex(16)
    with embedder.http() as web:
        headers = {"traceparent": f"00-{trace_id}-{'1' * 16}-01"}
        told = web.post("/embeddings", json={"model": MODEL, "input": TEXTS}, headers=headers).headers
    columns = "trace_id, outcome, endpoint, batch_id, model_version, duration_us, lengths"
    statement = f"SELECT {columns} FROM tracing_storedrequest WHERE request_id = '{told['x-request-id']}'"
    (row,) = wait_until(lambda: embedder.query(statement), 20, "it was not stored")
    assert row[:5] == (trace_id, "completed", "embeddings", told["x-sluice-batch-id"], told["x-sluice-model-version"])
    lengths = unpack_lengths(row[6])
    assert sum(lengths) == row[5]
    assert lengths[STAGES.index(Stage.PREFILL)] > 0, "the pass of the model"


def test_token_ids_alone_and_in_lists(client: OpenAI) -> None:
    ids = [101, 1037, 4049, 102]  # [CLS] a boat [SEP]
    (text,) = embed(client, "a boat")

    assert cosine(embed(client, ids)[0], text) > 0.999999
    assert [cosine(row, text) > 0.999999 for row in embed(client, [ids, ids[:2]])] == [True, False]


@pytest.mark.parametrize("dimensions", [1, 64, SIZE])
def test_short_vectors_have_length_one(client: OpenAI, dimensions: int) -> None:
    (vector,) = embed(client, "a boat", dimensions=dimensions)

    assert len(vector) == dimensions
    assert isclose(sum(x * x for x in vector), 1, abs_tol=1e-5)


def test_a_list_equals_its_texts_alone(client: OpenAI) -> None:
    texts = [*TEXTS, "boat " * 300, "a", "water " * 40]
    with ThreadPoolExecutor(len(texts)) as pool:
        alone = list(pool.map(lambda text: embed(client, text)[0], texts))

    assert min(map(cosine, embed(client, texts), alone)) > 0.999999


def test_a_list_of_two_thousand_passes(client: OpenAI) -> None:
    rows = embed(client, ["boat"] * 2048)

    assert len(rows) == 2048
    assert cosine(rows[0], rows[-1]) > 0.999999


@pytest.mark.parametrize(
    ("fields", "param", "code", "said"),
    [
        ({"input": "boat " * 600}, "input", "context_length_exceeded", "512"),
        ({"input": ["a", "boat " * 600]}, "input", "context_length_exceeded", "input 1"),
        ({"input": [5] * 513}, "input", "context_length_exceeded", "512"),
        ({"input": ""}, "input", "empty_string", "input"),
        ({"input": []}, "input", "empty_array", "input"),
        ({"input": ["a", ""]}, "input[1]", "empty_string", "input"),
        ({"input": ["a"] * 2049}, "input", "invalid_length", "2048"),
        ({"input": [99_999_999]}, "input", None, "30521"),
        ({"input": ["a", 5]}, "input", "invalid_value", "mix"),
        ({"input": "a", "dimensions": SIZE + 1}, "dimensions", None, str(SIZE)),
        ({"input": "a", "dimensions": 0}, "dimensions", "integer_below_min_value", "1"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format", "invalid_value", "hex"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_is_refused_by_name(
    client: OpenAI, fields: dict[str, Any], param: str, code: str | None, said: str
) -> None:
    with pytest.raises(BadRequestError) as refused:
        client.embeddings.create(model=MODEL, **fields)

    assert (refused.value.param, refused.value.code) == (param, code)
    assert said in str(refused.value.message)


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": "all-minilm-l6-v2", "input": NaN}',
        b'{"model": "all-minilm-l6-v2", "input": [1, Infinity]}',
        b'{"model": "all-minilm-l6-v2", "input": [1e999]}',
        b'{"model": "all-minilm-l6-v2", "input": "a", "dimensions": NaN}',
        b'{"model": "all-minilm-l6-v2", "input": "\\ud800"}',
        b'{"model": "all-minilm-l6-v2", "input": "a", "input": "b"}',
        b'{"model": "all-minilm-l6-v2", "input": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"model": "all-minilm-l6-v2", "input": "a"',
        b'{"model": "all-minilm-l6-v2", "input": "a", "stream": true}',
        b'{"model": "all-minilm-l6-v2", "input": "' + b"x" * 2_000_000 + b'"}',
    ],
    ids=lambda body: body[28:70].decode(),
)
def test_a_hostile_body_is_a_400_and_harms_nobody(embedder: Stack, client: OpenAI, body: bytes) -> None:
    with embedder.http() as http:
        response = http.post("/embeddings", content=body, headers={"content-type": "application/json"})

    assert response.status_code == 400
    assert set(response.json()["error"]) >= {"message", "type", "param", "code"}
    assert embed(client, "still there")


@pytest.mark.parametrize(
    ("path", "fields"),
    [("/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}), ("/completions", {"prompt": "hi"})],
)
def test_a_chat_with_it_is_told_the_right_endpoint(embedder: Stack, path: str, fields: dict[str, Any]) -> None:
    with embedder.http() as http:
        response = http.post(path, json={"model": MODEL, **fields})

    assert response.status_code == 400
    assert response.json()["error"]["code"] == "unsupported_endpoint"
    assert "/v1/embeddings" in response.json()["error"]["message"]


def test_a_client_that_leaves_frees_its_place(embedder: Stack) -> None:
    body = {"model": MODEL, "input": ["boat " * 400] * 200}
    with embedder.http(timeout=0.5) as http, pytest.raises(httpx.ReadTimeout):
        http.post("/embeddings", json=body)

    wait_until(lambda: embedder.leftovers() == {}, 20, "something is still held")


def test_the_clients_own_tests_pass_as_far_as_they_can(embedder: Stack, suite: Path, tmp_path: Path) -> None:
    add_key(embedder, SUITE_KEY)
    report, file = tmp_path / "report.xml", "test_embeddings.py"
    options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", "no:django", f"--junitxml={report}"]
    environ = {"TEST_API_BASE_URL": embedder.base_url, "PATH": os.environ["PATH"]}
    command = [sys.executable, "-B", "-m", "pytest", *options, f"tests/api_resources/{file}"]
    subprocess.run(command, cwd=suite, env=environ, timeout=RUN_S, check=False, stdout=subprocess.DEVNULL)

    failed, passed = read_report(report, file)
    # Where no encoding is named the client asks for base64, which its own strict mode then does not take for numbers.
    expected = {
        f"Test{name}::test_{variant}_create[{mode}]"
        for name, modes in (("Embeddings", ("strict",)), ("AsyncEmbeddings", ("strict", "aiohttp")))
        for variant in ("method", "raw_response", "streaming_response")
        for mode in modes
    }
    assert set(failed) == expected
    assert {message.split(":")[1] for message in failed.values()} == {
        " Data returned by API invalid for expected schema."
    }
    assert passed == 11


# --- beside a chat model --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A chat model, which a worker for embeddings joins once the instance is ready."""
    data_dir = tmp_path_factory.mktemp("both") / "data"
    options = ("--engine", "simulator", "--sim-profile", "zero", "--embeddings", "--no-flower")
    with stack.start(data_dir, *options) as running:
        yield running


def test_embeddings_join_a_running_instance(both: Stack) -> None:
    log = both.data_dir / "logs" / "up.log"
    wait_until(lambda: "embeddings-1: up" in log.read_text(), 120, "the worker for embeddings never came up")
    with both.client() as client:
        chats, embeds = [model.id for model in client.models.list().data]
        assert embeds == MODEL
        assert len(embed(client, TEXTS)) == 3
        said = client.chat.completions.create(model=chats, messages=[{"role": "user", "content": "hi"}], max_tokens=3)
        assert said.choices
        with pytest.raises(BadRequestError, match="Use /v1/chat/completions or /v1/completions"):
            client.embeddings.create(model=chats, input="hi")
        with pytest.raises(BadRequestError, match="Use /v1/embeddings"):
            client.completions.create(model=embeds, prompt="hi")


def test_nobody_waited_for_embeddings(both: Stack) -> None:
    lines = (both.data_dir / "logs" / "up.log").read_text().splitlines()
    (ready,) = (number for number, line in enumerate(lines) if line.endswith(" ready"))

    assert not any("embeddings-1" in line for line in lines[:ready])
    assert json.loads((both.data_dir / "ready.json").read_text())["base_url"] == both.base_url
