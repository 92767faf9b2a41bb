import json
from typing import Any

import httpx
import jsonschema
import pytest
from drf_spectacular.validation import validate_schema

from gateway.errors import Refusal


@pytest.fixture
def schema(client: httpx.Client) -> dict[str, Any]:
    response = client.get("/api/schema", headers={"accept": "application/vnd.oai.openapi+json"})
    assert response.status_code == 200
    loaded: dict[str, Any] = response.json()
    return loaded


def test_the_schema_is_valid_openapi(schema: dict[str, Any]) -> None:
    validate_schema(schema)
    assert schema["openapi"].startswith("3.1")


def test_the_schema_lists_the_data_plane_and_nothing_else(schema: dict[str, Any]) -> None:
    assert sorted(schema["paths"]) == [
        "/livez",
        "/metrics",
        "/readyz",
        "/v1/batches",
        "/v1/batches/{batch}",
        "/v1/batches/{batch}/cancel",
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/files",
        "/v1/files/{file}",
        "/v1/files/{file}/content",
        "/v1/filters/prompts",
        "/v1/limits",
        "/v1/models",
        "/v1/models/{model}",
        "/v1/prompts",
        "/v1/prompts/{prompt}",
        "/v1/prompts/{prompt}/versions",
        "/v1/usage",
    ]


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    names = schema["components"]["schemas"].keys()
    text = json.dumps(schema)
    references = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}

    assert references <= names
    assert {"ChatRequest", "CompletionsRequest", "EmbeddingsRequest", "ErrorBody"} <= references


def test_data_needs_a_key_and_probes_do_not(schema: dict[str, Any]) -> None:
    assert schema["paths"]["/v1/models"]["get"]["security"] == [{"bearerAuth": []}]
    assert schema["components"]["securitySchemes"]["bearerAuth"]["scheme"] == "bearer"
    assert not any(schema["paths"]["/livez"]["get"].get("security", []))


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/prompts"])
def test_examples_are_accepted_by_the_schema_itself(schema: dict[str, Any], path: str) -> None:
    content = schema["paths"][path]["post"]["requestBody"]["content"]["application/json"]

    assert content["examples"]
    for example in content["examples"].values():
        jsonschema.validate(example["value"], {**content["schema"], "components": schema["components"]})


def test_errors_are_shown_with_their_reasons(schema: dict[str, Any]) -> None:
    responses = schema["paths"]["/v1/chat/completions"]["post"]["responses"]

    assert {"200", "400", "401", "403", "404", "413", "429", "502", "503", "504"} <= responses.keys()
    examples = responses["429"]["content"]["application/json"]["examples"].values()
    reasons = {example["value"]["error"]["reason"] for example in examples}
    assert {Refusal.QUEUE_FULL.value, Refusal.TOKENS_PER_MINUTE.value} <= reasons


def test_the_page_works_offline(client: httpx.Client) -> None:
    page = client.get("/api/docs")

    assert page.status_code == 200
    assert "swagger" in page.text.lower()
    assert "https://" not in page.text
    asset = page.text.split('src="')[1].split('"')[0]
    assert client.get(asset).status_code == 200
