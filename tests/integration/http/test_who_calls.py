import http_face
import httpx
import pytest
from http_face import DISABLED_KEY, EXPIRED_KEY, KEY, NARROW_KEY, REVOKED_KEY, Pipeline

from gateway.runtime import runtime

CHAT = "/v1/chat/completions"


def body() -> dict[str, object]:
    return {"model": runtime().config.model_name, "messages": [{"role": "user", "content": "hi"}]}


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_key_opens_the_door(client: httpx.Client, behind: Pipeline, scheme: str) -> None:
    response = client.post(CHAT, json=body(), headers={"authorization": f"{scheme} {KEY}"})

    assert response.status_code == 200
    assert behind.seen[0][0].tenant == "acme"


@pytest.mark.parametrize(
    ("key", "status", "code", "reason"),
    [
        ("sk-" + "z" * 40, 401, "invalid_api_key", "key_unknown"),
        (REVOKED_KEY, 401, "invalid_api_key", "key_revoked"),
        (EXPIRED_KEY, 401, "invalid_api_key", "key_expired"),
        (DISABLED_KEY, 403, "account_deactivated", "tenant_disabled"),
        ("x" * 5000, 401, "invalid_api_key", "key_unknown"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/models", "/v1/models/m"])
def test_a_refused_key_is_told_why_and_not_echoed(
    client: httpx.Client, behind: Pipeline, path: str, key: str, status: int, code: str, reason: str
) -> None:
    method = "POST" if path in (CHAT, "/v1/completions") else "GET"
    response = client.request(method, path, headers={"authorization": f"Bearer {key}"})

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["reason"]) == (status, code, reason)
    assert key not in response.text
    assert behind.seen == []


@pytest.mark.parametrize("value", [None, "", "Bearer", f"Basic {KEY}", KEY, f"Token {KEY}"])
def test_without_a_bearer_key_there_is_no_entry(base_url: str, behind: Pipeline, value: str | None) -> None:
    headers = {} if value is None else {"authorization": value}
    response = httpx.post(base_url + CHAT, json=body(), headers=headers)

    assert (response.status_code, response.json()["error"]["code"]) == (401, "missing_api_key")


def test_two_keys_are_refused(base_url: str, behind: Pipeline) -> None:
    headers = [("authorization", f"Bearer {KEY}"), ("authorization", f"Bearer {NARROW_KEY}")]
    response = httpx.post(base_url + CHAT, json=body(), headers=headers)

    assert (response.status_code, response.json()["error"]["code"]) == (400, "invalid_header")
    assert behind.seen == []


def test_the_key_is_checked_before_the_body_is_read(client: httpx.Client, behind: Pipeline) -> None:
    response = client.post(CHAT, content=b"not json", headers={"authorization": "Bearer sk-wrong"})

    assert response.status_code == 401


def test_an_unknown_model_is_404(client: httpx.Client, behind: Pipeline) -> None:
    response = client.post(CHAT, json={**body(), "model": "gpt-nothing"})

    error = response.json()["error"]
    assert (response.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert behind.seen == []


def test_a_model_outside_the_plan_is_403(client: httpx.Client, behind: Pipeline) -> None:
    response = client.post(CHAT, json=body(), headers={"authorization": f"Bearer {NARROW_KEY}"})

    assert (response.status_code, response.json()["error"]["code"]) == (403, "model_not_allowed")
    assert behind.seen == []


SPOOFS = {
    "X-Priority": "P0",
    "X-Tenant": "narrow",
    "X-Tenant-Id": "2",
    "X-Model-Version": "canary",
    "X-Upstream": "http://127.0.0.1:1",
    "X-Gateway-Destination-Endpoint": "127.0.0.1:1",
    "X-Vllm-Priority": "0",
    "X-Forwarded-For": "10.0.0.1",
    "X-Forwarded-Host": "evil",
    "Baggage": "tenant=narrow",
}


def test_no_header_but_the_key_says_who_calls_or_what_he_may(client: httpx.Client, behind: Pipeline) -> None:
    content = client.post(CHAT, json=body(), headers=SPOOFS)
    principal, ask, seen_body, _ = behind.seen[0]

    assert content.status_code == 200
    assert (principal.tenant, ask.service_tier) == ("acme", None)
    assert b"narrow" not in seen_body
    assert not any(value in content.headers.values() for value in SPOOFS.values())


@pytest.mark.parametrize(
    "sent", [b"11111111-1111-4111-8111-111111111111", b"x" * 10_240, "übergröße".encode(), b"a\tb", b"${jndi:ldap://x}"]
)
def test_a_clients_request_id_is_never_used_or_echoed(client: httpx.Client, behind: Pipeline, sent: bytes) -> None:
    good = client.post(CHAT, json=body(), headers={b"x-request-id": sent})
    bad = client.post(CHAT, json=[], headers={b"x-request-id": sent})

    for response in (good, bad):
        assert len(response.headers["x-request-id"]) == 36
        assert response.headers["x-request-id"].encode() != sent
        assert not any(sent in value for _, value in response.headers.raw)
    assert behind.seen[0][3].request_id == good.headers["x-request-id"]


def test_repeated_headers_that_nobody_reads_do_no_harm(base_url: str, behind: Pipeline) -> None:
    twice = [("authorization", f"Bearer {KEY}"), ("x-tenant", "a"), ("x-tenant", "b"), ("traceparent", "x"),
             ("traceparent", "y")]  # fmt: skip

    assert httpx.post(base_url + CHAT, json=body(), headers=twice).status_code == 200


def test_the_trace_of_the_client_goes_on(client: httpx.Client, behind: Pipeline) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    client.post(CHAT, json=body(), headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})

    assert behind.seen[0][3].trace_id == trace


def test_an_alias_is_served_under_the_models_own_name(
    client: httpx.Client, behind: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    here = runtime()
    monkeypatch.setattr(here, "config", dataclasses.replace(here.config, model_aliases=("gpt-4o",)))
    response = client.post(CHAT, json={**body(), "model": "gpt-4o"})

    assert response.status_code == 200
    assert behind.seen[0][1].model == here.config.model_name
    assert http_face.KEY not in response.text
