"""The reference is complete: every error and every field stands in it."""

from pathlib import Path

import msgspec
import pytest

from gateway.errors import TABLE, Refusal
from gateway.schema import ChatRequest, CompletionsRequest, EmbeddingsRequest

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "api.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("why", Refusal)
def test_every_refusal_has_its_row(why: Refusal) -> None:
    entry = TABLE[why]
    code = f"`{entry.code}`" if entry.code else ""

    assert f"| {entry.status} | {code} | `{why.value}` | {entry.message} |" in PAGE


@pytest.mark.parametrize("request_type", [ChatRequest, CompletionsRequest, EmbeddingsRequest])
def test_every_field_is_explained(request_type: type[msgspec.Struct]) -> None:
    assert [name for name in request_type.__struct_fields__ if f"`{name}" not in PAGE] == []
