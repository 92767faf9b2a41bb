import json
import logging
from collections.abc import Iterator

import pytest

from tenants.keys import make_key
from tracing import colour, logs


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_a_key_or_token_in_a_line_is_cut_to_what_may_be_known_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    key, token = make_key(), "sluice-op-" + "0123456789abcdef" * 4
    logs.configure("info", "gateway-7")

    logging.getLogger("django.request").warning("Not Found: %s", f"/{key.plaintext}", extra={"status_code": 404})
    logs.get("x").info("odd_header", value=[f"Token {token}", key.plaintext])

    lines = capsys.readouterr().err
    assert [json.loads(line)["process"] for line in lines.splitlines()] == ["gateway-7"] * 2
    assert f"/sk-sluice-{key.prefix}-***" in lines
    assert "sluice-op-01234***" in lines
    assert key.plaintext not in lines
    assert token[20:] not in lines


def test_every_line_carries_the_ids_of_the_request_that_is_served(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", "worker-1")
    now = colour.begin([]).changed("a" * 16, tenant_scope="acme/p1", model_version="1.0.0-abc", batch_id="b-1")
    token = colour.current.set(now)
    try:
        logs.get("x").info("something")
        logging.getLogger("vllm").warning("of another library")
    finally:
        colour.current.reset(token)
    for line in capsys.readouterr().err.splitlines():
        told = json.loads(line)
        assert (told["request_id"], told["trace_id"]) == (now.request_id, now.trace_id)
        assert (told["tenant_scope"], told["model_version"], told["batch_id"]) == ("acme/p1", "1.0.0-abc", "b-1")
