"""What is refused of stored prompts before anybody is asked."""

import http_face
import httpx
import pytest

PROMPT = "/v1/prompts/prompt_00000000000000000000000000"
MESSAGES = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("/v1/prompts", PROMPT, f"{PROMPT}/versions")),
        *(("POST", path) for path in ("/v1/prompts", PROMPT)),
        ("DELETE", PROMPT),
    ],
)
@pytest.mark.parametrize(("key", "status"), [(http_face.READING_KEY, 403), ("", 401)])
def test_it_takes_a_key_that_may_ask_models(
    client: httpx.Client, method: str, path: str, key: str, status: int
) -> None:
    headers = {"authorization": f"Bearer {key}" if key else ""}

    assert client.request(method, path, headers=headers, json={"messages": MESSAGES}).status_code == status


@pytest.mark.parametrize(
    ("path", "param"),
    [
        ("/v1/prompts?limit=0", "limit"),
        ("/v1/prompts?limit=101", "limit"),
        ("/v1/prompts?limit=\u0663", "limit"),
        ("/v1/prompts?limit=1&limit=2", "limit"),
        ("/v1/prompts?order=asc", "order"),
        (f"{PROMPT}?version=0", "version"),
        (f"{PROMPT}?version=9999999999999", "version"),
        (f"{PROMPT}?versions=1", "versions"),
        (f"{PROMPT}/versions?limit=1", "limit"),
    ],
)
def test_a_query_that_is_not_understood_is_refused(client: httpx.Client, path: str, param: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("path", ["/v1/prompts", PROMPT])
@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": MESSAGES, "model": "m"}, None),
        ({"messages": [{"role": "stranger", "content": "a"}]}, "messages[0].role"),
    ],
)
def test_a_body_that_is_no_prompt_is_refused(
    client: httpx.Client, path: str, body: dict[str, object], param: str | None
) -> None:
    answer = client.post(path, json=body)

    assert answer.status_code == 400
    assert answer.json()["error"]["param"] in (param, "messages")


@pytest.mark.parametrize(
    ("method", "path"), [("PUT", PROMPT), ("DELETE", "/v1/prompts"), ("POST", f"{PROMPT}/versions")]
)
def test_other_methods_are_refused(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["allow"]
