"""The same Idempotency-Key is charged once, however and wherever it comes again (B47)."""

import asyncio
import uuid
from collections import Counter
from typing import Any

import httpx
import pytest
from openai import ConflictError, OpenAI

from tests.acceptance import sse
from tests.acceptance.caller import Caller
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"
SOON_S = 10.0
WORDS = "an utterly unmistakable question"


@pytest.fixture(scope="module")
def keys(pair: Stack) -> dict[str, str]:
    """Tenants whose answers are kept for an hour, and such whose answers are not."""
    return pair.add_tenants(
        {"keeps": {"retention_hours": 1}, "forgets": {}, "other": {}, "scarce": {"requests_per_minute": 1}}
    )


def body_of(sim: str = "tokens=8", **fields: Any) -> dict[str, Any]:
    body = {"model": MODEL, "messages": [{"role": "user", "content": WORDS}], "metadata": {"sim": sim}}
    return body | fields


def headers_of(key: str, name: str) -> dict[str, str]:
    # One listening socket feeds both gateways: fresh connections reach either.
    return {"authorization": f"Bearer {key}", "idempotency-key": name, "connection": "close"}


def post(stack: Stack, key: str, name: str, body: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{stack.base_url}/chat/completions", headers=headers_of(key, name), json=body, timeout=60)


async def post_all(stack: Stack, key: str, name: str, body: dict[str, Any], times: int) -> list[httpx.Response]:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=stack.base_url, limits=limits, timeout=60) as client:
        work = (client.post("/chat/completions", headers=headers_of(key, name), json=body) for _ in range(times))
        return await asyncio.gather(*work)


def rows_of(stack: Stack, tenant: str) -> dict[str, tuple[Any, ...]]:
    """Outcome, completion tokens and attempts of every row of a tenant, by request id; once all is settled."""
    wait_until(lambda: stack.leftovers() == {} and stack.store().xlen("sl:settle") == 0, SOON_S)
    columns = "(SELECT slug FROM tenants_tenant WHERE id = tenant_id), request_id, outcome, completion_tokens"
    return {row[1]: row[2:] for row in stack.usage_rows(f"{columns}, retry_attempt") if row[0] == tenant}


def name() -> str:
    return str(uuid.uuid4())


@pytest.mark.parametrize("tenant", ["keeps", "forgets"])
@pytest.mark.parametrize("stream", [True, False])
async def test_twenty_at_once_are_one_charge(pair: Stack, keys: dict[str, str], tenant: str, stream: bool) -> None:
    before, key = rows_of(pair, tenant).keys(), name()
    answers = await post_all(pair, keys[tenant], key, body_of("tokens=8,delay=0.5", stream=stream), 20)
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 19}
    first = next(answer for answer in answers if answer.status_code == 200)
    for answer in answers:
        if answer is not first:
            assert sse.error_of(answer)["code"] == "idempotency_in_progress"
            assert answer.headers["x-sluice-original-request-id"] == first.headers["x-request-id"]
            assert int(answer.headers["retry-after"]) >= 1
    assert rows_of(pair, tenant).keys() - before == {first.headers["x-request-id"]}


@pytest.mark.parametrize("stream", [True, False])
def test_one_after_the_other_get_the_same_bytes_and_one_charge(pair: Stack, keys: dict[str, str], stream: bool) -> None:
    before, key, body = rows_of(pair, "keeps").keys(), name(), body_of(stream=stream, service_tier="default")
    first = post(pair, keys["keeps"], key, body)
    wait_until(lambda: pair.store().exists(f"sl:kept:{first.headers['x-request-id']}"), SOON_S)
    for _ in range(8):
        again = post(pair, keys["keeps"], key, body)
        assert (again.status_code, again.content) == (200, first.content)
        assert again.headers["content-type"] == first.headers["content-type"]
        assert again.headers["x-sluice-idempotent-replayed"] == "true"
        assert again.headers["x-sluice-original-request-id"] == first.headers["x-request-id"]
        assert again.headers["x-request-id"] != first.headers["x-request-id"]
    if stream:
        sse.strict_response(again)
    assert rows_of(pair, "keeps").keys() - before == {first.headers["x-request-id"]}


def test_the_official_client_reads_a_replayed_stream(pair: Stack, keys: dict[str, str]) -> None:
    with pair.client(api_key=keys["keeps"]) as client:
        first, request_id, _ = streamed(client, key := name())
        wait_until(lambda: pair.store().exists(f"sl:kept:{request_id}"), SOON_S)
        again, _, original_id = streamed(client, key)
    assert first
    assert (again, original_id) == (first, request_id)


def streamed(client: OpenAI, key: str) -> tuple[list[str], str, str | None]:
    """Chunks as the client reads them, the request's id, and the id of the one whose answer this is."""
    raw = client.chat.completions.with_raw_response.create(
        **body_of(stream=True), extra_headers={"idempotency-key": key}
    )
    chunks = [chunk.model_dump_json() for chunk in raw.parse()]
    return chunks, raw.headers["x-request-id"], raw.headers.get("x-sluice-original-request-id")


def test_the_official_client_is_not_made_to_retry_a_used_key(pair: Stack, keys: dict[str, str]) -> None:
    before, key = rows_of(pair, "forgets").keys(), name()
    first = post(pair, keys["forgets"], key, body_of())
    with pytest.raises(ConflictError) as refused, pair.client(api_key=keys["forgets"], max_retries=5) as client:
        client.chat.completions.create(**body_of(), extra_headers={"idempotency-key": key})
    assert refused.value.code == "idempotency_key_used"
    assert refused.value.response.headers["x-sluice-original-request-id"] == first.headers["x-request-id"]
    assert refused.value.response.request.headers["x-stainless-retry-count"] == "0"
    assert rows_of(pair, "forgets").keys() - before == {first.headers["x-request-id"]}


def test_another_body_is_refused(pair: Stack, keys: dict[str, str]) -> None:
    before, key = rows_of(pair, "keeps").keys(), name()
    first = post(pair, keys["keeps"], key, body_of())
    other = post(pair, keys["keeps"], key, body_of(temperature=0.5))
    assert (other.status_code, sse.error_of(other)["code"]) == (422, "idempotency_key_reused")
    assert rows_of(pair, "keeps").keys() - before == {first.headers["x-request-id"]}


def test_tenants_and_endpoints_do_not_share_keys(pair: Stack, keys: dict[str, str]) -> None:
    key, body = name(), body_of()
    ids = {post(pair, keys[tenant], key, body).headers["x-request-id"] for tenant in ("forgets", "other")}
    text = {"model": MODEL, "prompt": WORDS, "metadata": {"sim": "tokens=2"}}
    at_completions = httpx.post(f"{pair.base_url}/completions", headers=headers_of(keys["other"], key), json=text)
    assert at_completions.status_code == 200
    ids.add(at_completions.headers["x-request-id"])
    rows = rows_of(pair, "forgets") | rows_of(pair, "other")
    assert len(ids) == 3
    assert {rows[one][0] for one in ids} == {"completed"}


def test_a_repetition_costs_no_quota_and_no_limit_stands_in_its_way(pair: Stack, keys: dict[str, str]) -> None:
    key = name()
    assert post(pair, keys["scarce"], key, body_of()).status_code == 200
    assert post(pair, keys["scarce"], name(), body_of()).status_code == 429
    again = post(pair, keys["scarce"], key, body_of())
    assert sse.error_of(again)["code"] == "idempotency_key_used"


def test_an_engine_that_fails_on_the_way_is_one_charge(pair: Stack, keys: dict[str, str]) -> None:
    before, key, body = rows_of(pair, "keeps").keys(), name(), body_of("tokens=20,die_once_after=5", stream=True)
    first = post(pair, keys["keeps"], key, body)
    sse.strict_response(first)
    wait_until(lambda: pair.store().exists(f"sl:kept:{first.headers['x-request-id']}"), SOON_S)
    assert post(pair, keys["keeps"], key, body).content == first.content
    rows = rows_of(pair, "keeps")
    assert rows.keys() - before == {first.headers["x-request-id"]}
    assert rows[first.headers["x-request-id"]] == ("completed", 20, 1)


def test_who_left_before_the_end_may_ask_again(pair: Stack, keys: dict[str, str]) -> None:
    before, key, body = rows_of(pair, "forgets").keys(), name(), body_of("tokens=8,hang_after=3", stream=True)
    caller = Caller(pair, body, keys["forgets"], {"idempotency-key": key})
    caller.read_until(b"content")
    caller.leave()
    wait_until(lambda: pair.leftovers() == {}, SOON_S)
    # The same key is free for whatever comes now.
    assert post(pair, keys["forgets"], key, body_of()).status_code == 200
    rows = rows_of(pair, "forgets")
    assert Counter(rows[one][0] for one in rows.keys() - before) == {"cancelled": 1, "completed": 1}


def test_a_request_that_failed_frees_its_key(pair: Stack, keys: dict[str, str]) -> None:
    key = name()
    assert post(pair, keys["forgets"], key, body_of("error=400")).status_code == 400
    assert post(pair, keys["forgets"], key, body_of()).status_code == 200


@pytest.mark.parametrize("wrong", ["", "x" * 256])
def test_a_malformed_key_is_refused(pair: Stack, keys: dict[str, str], wrong: str) -> None:
    answer = post(pair, keys["forgets"], wrong, body_of())
    assert (answer.status_code, sse.error_of(answer)["code"]) == (400, "invalid_header")


@pytest.mark.parametrize("stream", [True, False])
def test_without_retention_nothing_of_an_answer_stays(pair: Stack, keys: dict[str, str], stream: bool) -> None:
    answer = post(pair, keys["forgets"], name(), body_of("tokens=30", stream=stream))
    parts = [part.removeprefix(b"data: ") for part in answer.content.split(b"\n\n")]
    pieces = [WORDS.encode(), *(part for part in parts if part not in (b"", b"[DONE]"))]
    wait_until(lambda: not any(piece in everything(pair) for piece in pieces), SOON_S)
    assert not pair.store().exists(f"sl:kept:{answer.headers['x-request-id']}")


def everything(stack: Stack) -> bytes:
    """All that the store holds of items, in their raw form."""
    store = stack.store()
    return b"\n".join(raw for key in store.scan_iter("sl:*", count=1000) for raw in _raw(store, key))


def _raw(store: Any, key: bytes) -> list[bytes]:
    readers = {
        b"string": lambda: [store.get(key)],
        b"hash": lambda: [part for pair in store.hgetall(key).items() for part in pair],
        b"set": lambda: list(store.smembers(key)),
        b"zset": lambda: store.zrange(key, 0, -1),
        b"list": lambda: store.lrange(key, 0, -1),
        b"stream": lambda: [part for _, fields in store.xrange(key) for part in fields.values()],
    }
    kind = store.type(key)
    return [key] if kind == b"none" else [part or b"" for part in readers[kind]()]
