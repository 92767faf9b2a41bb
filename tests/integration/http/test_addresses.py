from dataclasses import replace

import httpx
import pytest
from http_face import KEY, NARROW_KEY, Pipeline, worker
from structlog.testing import capture_logs

from gateway import pipeline
from gateway.runtime import runtime

CHAT = "/v1/chat/completions"


def test_models_are_listed_in_openais_shape(client: httpx.Client) -> None:
    listed = client.get("/v1/models").json()

    assert listed["object"] == "list"
    assert [entry["id"] for entry in listed["data"]] == [runtime().config.model_name, "org/another-model"]
    for entry in listed["data"]:
        assert (entry["object"], entry["owned_by"], entry["max_model_len"]) == ("model", "sluice", 2048)
        assert isinstance(entry["created"], int)


def test_a_model_is_found_by_an_id_with_a_slash(client: httpx.Client) -> None:
    assert client.get("/v1/models/org/another-model").json()["id"] == "org/another-model"
    assert client.get("/v1/models/org%2Fanother-model").json()["id"] == "org/another-model"


@pytest.mark.parametrize("path", ["/v1/models/nothing", "/v1/models/" + "x" * 3000])
def test_an_unknown_model_is_404(client: httpx.Client, path: str) -> None:
    response = client.get(path)

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "model_not_found"
    assert len(response.text) < 500


def test_a_plan_sees_only_its_own_models(client: httpx.Client) -> None:
    headers = {"authorization": f"Bearer {NARROW_KEY}"}

    assert client.get("/v1/models", headers=headers).json()["data"] == []
    assert client.get(f"/v1/models/{runtime().config.model_name}", headers=headers).status_code == 404


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/v1/x", "/v1/chat", "/v1/chat/completions/", "/v1/engines", "/v1//"])
def test_an_unknown_path_is_404_in_json(client: httpx.Client, path: str) -> None:
    response = client.get(path)

    assert response.status_code == 404
    assert response.json()["error"]["code"] == "unknown_url"


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", CHAT, "POST, OPTIONS"),
        ("DELETE", CHAT, "POST, OPTIONS"),
        ("POST", "/v1/models", "GET, HEAD, OPTIONS"),
        ("PUT", "/livez", "GET, HEAD, OPTIONS"),
        ("TRACE", CHAT, "POST, OPTIONS"),
        ("PURGE", CHAT, "POST, OPTIONS"),
    ],
)
def test_a_wrong_method_is_405_and_told_the_right_ones(
    client: httpx.Client, method: str, path: str, allow: str
) -> None:
    response = client.request(method, path)

    assert (response.status_code, response.headers["allow"]) == (405, allow)
    assert response.json()["error"]["code"] == "method_not_allowed"


def test_options_tell_the_methods_and_nothing_to_other_origins(client: httpx.Client) -> None:
    response = client.options(CHAT, headers={"origin": "https://evil", "access-control-request-method": "POST"})

    assert (response.status_code, response.headers["allow"]) == (204, "POST, OPTIONS")
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_head_is_get_without_a_body(client: httpx.Client) -> None:
    response = client.head("/v1/models")

    assert (response.status_code, response.content) == (200, b"")
    assert int(response.headers["content-length"]) > 0


def test_an_error_within_is_a_500_that_tells_nothing(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(pipeline, "submit", broken)
    body = {"model": runtime().config.model_name, "messages": [{"role": "user", "content": "hi"}]}
    with capture_logs() as lines:
        response = client.post(CHAT, json=body)

    assert response.status_code == 500
    assert response.json()["error"]["code"] == "internal_error"
    assert "secret" not in response.text
    assert [line["event"] for line in lines] == ["request_failed"]


@pytest.mark.parametrize("path", ["/livez", "/v1/models", "/v1/nothing", "/metrics"])
def test_every_answer_carries_a_request_id(client: httpx.Client, path: str) -> None:
    first, second = client.get(path), client.get(path)

    assert len(first.headers["x-request-id"]) == 36
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert int(first.headers["openai-processing-ms"]) >= 0
    assert "server" not in first.headers


def test_liveness_needs_nothing(base_url: str, behind: Pipeline) -> None:
    runtime().workers = []
    runtime().store_error = "down"

    assert httpx.get(base_url + "/livez").json() == {"status": "alive"}


def test_ready_means_that_an_engine_of_the_model_is_in_service(base_url: str, behind: Pipeline) -> None:
    response = httpx.get(base_url + "/readyz")

    assert (response.status_code, response.json()["status"]) == (200, "ready")


@pytest.mark.parametrize(
    ("state", "reason", "told"),
    [
        ("starting", "loading weights", "loading weights"),
        ("probing", "", "probing"),
        ("failed", "bad answer", "bad answer"),
    ],
)
def test_not_ready_says_why(base_url: str, behind: Pipeline, state: str, reason: str, told: str) -> None:
    runtime().workers = [worker(runtime().config.model_name, state, reason)]
    response = httpx.get(base_url + "/readyz")

    assert response.status_code == 503
    assert response.json()["reasons"][0].startswith(f"engine worker-1: {told} (")
    assert int(response.headers["retry-after"]) >= 1


def test_not_ready_without_workers_or_stores(base_url: str, behind: Pipeline) -> None:
    runtime().workers = []
    runtime().store_error = "connection refused"
    reasons = httpx.get(base_url + "/readyz").json()["reasons"]

    assert [reason.split(":")[0] for reason in reasons] == ["valkey", f"no engine for {runtime().config.model_name}"]


def test_an_engine_of_another_model_does_not_make_ready(base_url: str, behind: Pipeline) -> None:
    runtime().workers = [worker("another")]

    assert httpx.get(base_url + "/readyz").status_code == 503


def test_metrics_count_refusals_by_reason(client: httpx.Client) -> None:
    client.get("/v1/nothing")

    assert 'sluice_refusals_total{reason="unknown_path"}' in client.get("/metrics").text
    assert KEY not in client.get("/metrics").text


# --- endpoints of a model -----------------------------------------------------------------------------------------

EMBEDDER = "embedder"
ASKED = {
    CHAT: {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/embeddings": {"input": "hi"},
}


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("embeds", [True, False])
def test_a_model_is_asked_at_its_own_endpoints_only(
    client: httpx.Client, behind: Pipeline, path: str, embeds: bool
) -> None:
    runtime().workers.append(replace(worker(EMBEDDER), endpoints=("embeddings",)))
    model = EMBEDDER if embeds else runtime().config.model_name
    response = client.post(path, json={"model": model, **ASKED[path]})

    if embeds == (path == "/v1/embeddings"):
        assert response.status_code == 200
        assert [ask.model for _, ask, _, _ in behind.seen] == [model]
        return
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["param"], error["code"]) == ("model", "unsupported_endpoint")
    assert path in error["message"]
    assert ("/v1/embeddings" if embeds else "Use /v1/chat/completions or /v1/completions") in error["message"]
    assert behind.seen == []


def test_what_an_engine_serves_is_not_guessed_before_it_has_loaded(client: httpx.Client, behind: Pipeline) -> None:
    runtime().workers.append(replace(worker(EMBEDDER, "starting"), version=""))

    assert client.post("/v1/embeddings", json={"model": EMBEDDER, "input": "hi"}).status_code == 200
    assert len(behind.seen) == 1
