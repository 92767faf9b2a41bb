"""One trace from the client to the engine and back, whatever becomes of the request; and where it went is stored."""

import secrets
from typing import Any

import psutil
import pytest

from domain.trace.record import Record
from domain.trace.spans import ATTEMPT, span_id, tree
from tests.acceptance import batches
from tests.stack import Stack, wait_until
from tracing.store.packing import unpack_moments

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"
STORED_S = 20.0


def parent() -> tuple[str, str, dict[str, str]]:
    """A client's trace and span, and the header that tells of them."""
    trace_id, span_id = secrets.token_hex(16), secrets.token_hex(8)
    return trace_id, span_id, {"traceparent": f"00-{trace_id}-{span_id}-01"}


def chat(product: Stack, headers: dict[str, str], sim: str = "", api_key: str = "", **body: Any) -> str:
    """Ask, read all of it, and return the request's id."""
    asked = {"model": MODEL, "messages": [{"role": "user", "content": secrets.token_hex(8)}], "max_tokens": 4, **body}
    if sim:
        asked["metadata"] = {"sim": sim}
    with product.client(api_key=api_key or product.api_key) as client:
        answer = client.chat.completions.with_raw_response.create(**asked, extra_headers=headers)
        answer.http_response.read()
        return answer.headers["x-request-id"]


def stored(product: Stack, request_id: str) -> dict[str, Any]:
    """What is kept of a request, once it is."""
    columns = (
        "request_id, trace_id, tenant, model_version, worker_id, batch_id, outcome, status, cache, retry_attempt, kept"
    )
    statement = f"SELECT {columns} FROM tracing_storedrequest WHERE request_id = '{request_id}'"
    (row,) = wait_until(lambda: product.query(statement), STORED_S, f"{request_id} was not stored")
    return dict(zip(columns.split(", "), row, strict=True))


def moments(product: Stack, request_id: str) -> Record:
    """All moments of a request that is kept whole."""
    statement = f"SELECT moments FROM tracing_storedrequest WHERE request_id = '{request_id}'"
    return unpack_moments(product.query(statement)[0][0])


@pytest.mark.parametrize("stream", [False, True])
def test_the_clients_trace_goes_on_through_batch_and_worker(sim: Stack, stream: bool) -> None:
    trace_id, _, headers = parent()
    row = stored(sim, request_id := chat(sim, headers, "itl=0.01", stream=stream))
    assert row["trace_id"] == trace_id
    assert request_id.replace("-", "")[:12] == trace_id[:12]
    assert row["worker_id"].startswith("worker")
    assert row["batch_id"].startswith("b-")
    assert (row["tenant"], row["outcome"], row["status"]) == ("demo", "completed", 200)
    assert row["model_version"].startswith("sim-")


def test_the_answer_tells_its_ids(sim: Stack) -> None:
    trace_id, _, headers = parent()
    body = {"model": MODEL, "messages": [{"role": "user", "content": "ids"}], "max_tokens": 4}
    with sim.http() as web:
        told = web.post("/chat/completions", json=body, headers=headers).headers
        refused = web.post("/chat/completions", json={}, headers=headers).headers
    row = stored(sim, told["x-request-id"])
    assert told["traceresponse"][3:35] == refused["traceresponse"][3:35] == trace_id
    assert told["x-sluice-batch-id"] == row["batch_id"]
    assert told["x-sluice-model-version"] == row["model_version"]


def test_a_retried_request_keeps_its_trace_and_both_attempts(sim: Stack) -> None:
    trace_id, span_id, headers = parent()
    request_id = chat(sim, headers, "die_once_after=2", stream=True, max_tokens=6)
    assert stored(sim, request_id)["kept"] == "retried"
    record = moments(sim, request_id)
    assert (record.trace_id, record.parent_id) == (trace_id, span_id)
    first, second = record.runs
    assert (first.lost, second.cause, second.attempt) == ("engine_error", "engine_error", 1)
    assert first.batch_id != second.batch_id
    attempts = [span for span in tree(record) if span.name == ATTEMPT]
    assert attempts[1].links == (attempts[0].span_id,)


def test_a_request_whose_worker_is_killed_goes_on_under_its_trace(pair: Stack) -> None:
    trace_id, _, headers = parent()
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": secrets.token_hex(8)}],
        "stream": True,
        "max_tokens": 60,
        "metadata": {"sim": "itl=0.05"},
    }
    with pair.http() as web, web.stream("POST", "/chat/completions", json=body, headers=headers) as answer:
        request_id = answer.headers["x-request-id"]
        _worker_of(pair, request_id).kill()
        assert b"[DONE]" in answer.read()
    assert stored(pair, request_id)["kept"] == "retried"
    record = moments(pair, request_id)
    assert (record.trace_id, record.outcome, record.status) == (trace_id, "completed", 200)
    first, second = record.runs[0], record.runs[-1]
    assert first.lost == "worker_lost"
    assert second.worker_id != first.worker_id


def _worker_of(product: Stack, request_id: str) -> psutil.Process:
    """Who runs a request whose answer has begun."""
    with product.store() as store:
        owner = store.hget(f"sl:item:{request_id}", "owner")
        return psutil.Process(int(store.hget(b"sl:worker:" + owner, "pid")))


def test_kept_and_shared_answers_have_traces_of_their_own(keeping: Stack) -> None:
    key = keeping.add_tenants({f"t-{secrets.token_hex(3)}": {}})
    same = {
        "api_key": next(iter(key.values())),
        "messages": [{"role": "user", "content": secrets.token_hex(8)}],
        "temperature": 0,
        "max_tokens": 400,
    }
    first = chat(keeping, parent()[2], **same)
    assert stored(keeping, first)["cache"] == "miss"
    hit = wait_until(lambda: _hit(keeping, chat(keeping, parent()[2], **same)), STORED_S, "it was never kept")
    assert (hit["worker_id"], hit["batch_id"], hit["outcome"]) == ("", "", "completed")
    assert hit["model_version"] == stored(keeping, first)["model_version"]


def _hit(product: Stack, request_id: str) -> dict[str, Any] | None:
    row = stored(product, request_id)
    return row if row["cache"] == "hit" else None


def test_a_refused_request_is_found_with_its_reason(sim: Stack) -> None:
    trace_id, _, headers = parent()
    with sim.http() as web:
        answer = web.post("/chat/completions", json={"model": "no-such", "messages": []}, headers=headers)
        request_id = answer.headers["x-request-id"]
        wrong = {**headers, "authorization": "Bearer nobody"}
        unknown = web.post("/chat/completions", json={}, headers=wrong).headers["x-request-id"]
    row = stored(sim, request_id)
    assert (row["trace_id"], row["outcome"], row["status"]) == (trace_id, "refused", answer.status_code)
    assert (stored(sim, unknown)["status"], stored(sim, unknown)["tenant"]) == (401, "")


def test_names_that_clients_make_up_become_no_labels(sim: Stack) -> None:
    word = f"bomb{secrets.token_hex(4)}"
    with sim.http() as web:
        for number in range(40):
            name = f"{word}-{number}"
            headers = {"x-tenant": name, "x-priority": name, "x-model-version": name, "x-request-id": name}
            body = {"model": name, "messages": [{"role": "user", "content": "x"}], "service_tier": name, "user": name}
            assert web.post("/chat/completions", json=body, headers=headers).status_code in (400, 404)
            assert web.get(f"/{name}").status_code == 404
    with sim.http(base_url=sim.root_url) as web:
        assert word not in web.get("/metrics").text
    found = sim.query("SELECT count(*) FROM tracing_requestsum WHERE tenant LIKE 'bomb%' OR model LIKE 'bomb%'")
    assert found == [(0,)]


@pytest.mark.parametrize(
    "header",
    ["00-" + "0" * 32 + "-" + "1" * 16 + "-01", "nonsense", "00-" + "g" * 32 + "-" + "1" * 16 + "-01", "x" * 5000],
)
def test_a_traceparent_that_is_none_begins_a_trace_of_our_own(sim: Stack, header: str) -> None:
    request_id = chat(sim, {"traceparent": header, "x-request-id": "mine"})
    row = stored(sim, request_id)
    assert row["trace_id"][:12] == request_id.replace("-", "")[:12]
    assert header[3:35] != row["trace_id"]


def test_a_client_that_leaves_is_found_as_such(sim: Stack) -> None:
    _, _, headers = parent()
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "metadata": {"sim": "itl=0.05,tokens=200"},
    }
    with sim.http() as web, web.stream("POST", "/chat/completions", json=body, headers=headers) as answer:
        request_id = answer.headers["x-request-id"]
        next(answer.iter_bytes())
    row = stored(sim, request_id)
    assert (row["outcome"], row["status"]) == ("cancelled", 499)
    assert row["worker_id"].startswith("worker"), "who worked for it is known all the same"


def test_all_requests_of_a_batch_are_in_the_trace_of_who_made_it_below_the_batch(bulk: Stack) -> None:
    trace_id, _, headers = parent()
    lines = [*batches.chats(12), batches.chat("broken", sim="die_after=1")]
    with bulk.client() as client:
        file_id = batches.upload(client, lines)
        made = client.batches.with_raw_response.create(
            input_file_id=file_id, endpoint=batches.CHAT, completion_window="24h", extra_headers=headers
        )
        ended = batches.finish(client, made.parse().id)
        output, errors = batches.check_each_once(client, ended, lines)
    assert made.headers["traceresponse"][3:35] == ended.trace_id == trace_id
    assert made.headers["x-request-id"].replace("-", "")[:12] == trace_id[:12]

    told = {one["response"]["request_id"] for one in [*output, *errors]}
    columns = "request_id, tenant, worker_id, batch_id, outcome, moments"
    statement = f"SELECT {columns} FROM tracing_storedrequest WHERE trace_id = '{trace_id}'"
    rows = wait_until(lambda: _all_of(bulk.query(statement), told), STORED_S, "a request was not stored")
    assert len(rows) == len(lines) + 2, "what broke was tried three times"
    assert {(row[1], row[4]) for row in rows} == {("demo", "completed"), ("demo", "failed")}
    assert all(row[2].startswith("worker") and row[3].startswith("b-") for row in rows)
    kept = [unpack_moments(row[5]) for row in rows if row[5] is not None]
    assert kept, "failures are kept whole"
    assert {(one.trace_id, one.parent_id) for one in kept} == {(trace_id, span_id(ended.id, "bulk"))}
    assert all(one.gateway_id.startswith("bulk-") and one.qos_class == "p2" for one in kept)


def _all_of(rows: list[Any], request_ids: set[str]) -> list[Any]:
    return rows if {row[0] for row in rows} >= request_ids else []
