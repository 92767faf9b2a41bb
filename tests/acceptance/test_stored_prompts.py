"""Stored prompts, as clients use them."""

import asyncio
import random
import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai import OpenAI
from prometheus_client.parser import text_string_to_metric_families

from domain.prompt_id import RANDOM_BYTES, make_id
from tests.stack import Stack, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

GREETING = [{"role": "system", "content": "Be {{mood}}."}, {"role": "user", "content": "Say hello to {{name}}."}]
VALUES = {"mood": "kind", "name": "Ada"}
NO_PROMPT = make_id(1_700_000_000_000, bytes(RANDOM_BYTES))


@pytest.fixture
def client(sim: Stack) -> Iterator[OpenAI]:
    with sim.client() as made:
        yield made


@pytest.fixture(scope="module")
def model(sim: Stack) -> str:
    with sim.client() as made:
        return made.models.list().data[0].id


@pytest.fixture(scope="module")
def stranger(sim: Stack) -> str:
    """The key of another tenant."""
    return sim.add_tenants({"stranger": {}})["stranger"]


def store(client: OpenAI, messages: Any = GREETING, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = client.post("/prompts", body={"messages": messages, **fields}, cast_to=dict[str, Any])
    return made


def ask(client: OpenAI, model: str, prompt: dict[str, Any], messages: Any = (), **options: Any) -> Any:
    extra = {"prompt": prompt}
    return client.chat.completions.create(
        model=model, messages=list(messages), extra_body=extra, temperature=0, max_tokens=8, **options
    )


def figure(stack: Stack, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(httpx.get(f"{stack.root_url}/metrics", timeout=20).text)
    samples = (sample for family in families for sample in family.samples if sample.name == name)
    return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())


def test_a_prompt_is_stored_read_listed_and_deleted(client: OpenAI) -> None:
    made = store(client, name="greeting")

    assert made["object"] == "prompt"
    assert (made["version"], made["name"], made["messages"]) == (1, "greeting", GREETING)
    assert made["variables"] == ["mood", "name"]
    path = f"/prompts/{made['id']}"
    assert client.get(path, cast_to=dict[str, Any]) == made
    listed = client.get("/prompts?limit=1", cast_to=dict[str, Any])
    assert [one["id"] for one in listed["data"]] == [made["id"]]
    assert client.delete(path, cast_to=dict[str, Any]) == {
        "id": made["id"],
        "object": "prompt.deleted",
        "deleted": True,
    }
    with pytest.raises(openai.NotFoundError) as caught:
        client.get(path, cast_to=dict[str, Any])
    assert caught.value.code == "prompt_not_found"


def test_a_chat_with_a_prompt_is_the_chat_with_its_messages(client: OpenAI, model: str) -> None:
    made = store(client)
    own: Any = [{"role": "user", "content": "And to {{everybody}}."}]
    plain: Any = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Say hello to Ada."},
        *own,
    ]
    by_name = ask(client, model, {"id": made["id"], "variables": VALUES}, own, seed=1)
    in_full = client.chat.completions.create(model=model, messages=plain, temperature=0, max_tokens=8, seed=1)

    assert by_name.usage.prompt_tokens == in_full.usage.prompt_tokens
    assert by_name.choices == in_full.choices


def test_a_chat_with_a_prompt_streams(client: OpenAI, model: str) -> None:
    made = store(client)
    chunks = list(ask(client, model, {"id": made["id"], "variables": VALUES}, stream=True))

    assert chunks[-1].choices[0].finish_reason == "length"


def test_the_latest_version_is_used_unless_one_is_named(client: OpenAI, model: str) -> None:
    made = store(client, [{"role": "user", "content": "one"}])
    path = f"/prompts/{made['id']}"
    longer = [{"role": "user", "content": "one two three four five six seven eight nine ten"}]
    second = client.post(path, body={"messages": longer}, cast_to=dict[str, Any])

    assert second["version"] == 2
    versions = client.get(f"{path}/versions", cast_to=dict[str, Any])["data"]
    assert [one["version"] for one in versions] == [2, 1]
    counts = [
        ask(client, model, {"id": made["id"], **named}).usage.prompt_tokens
        for named in ({}, {"version": 2}, {"version": "1"})
    ]
    assert counts[0] == counts[1] > counts[2]
    assert client.get(f"{path}?version=1", cast_to=dict[str, Any])["messages"] == made["messages"]
    with pytest.raises(openai.NotFoundError) as caught:
        ask(client, model, {"id": made["id"], "version": 3})
    assert caught.value.param == "prompt.version"


def test_variables_that_do_not_fit_are_named(client: OpenAI, model: str) -> None:
    made = store(client)
    with pytest.raises(openai.BadRequestError, match="'name'"):
        ask(client, model, {"id": made["id"], "variables": {"mood": "kind"}})
    with pytest.raises(openai.BadRequestError, match="'place'"):
        ask(client, model, {"id": made["id"], "variables": {**VALUES, "place": "here"}})


def test_another_tenants_prompt_is_like_none(sim: Stack, client: OpenAI, model: str, stranger: str) -> None:
    made = store(client)
    ask(client, model, {"id": made["id"], "variables": VALUES})
    with sim.client(api_key=stranger) as other:
        bodies = []
        for public_id in (made["id"], NO_PROMPT):
            for call in (
                lambda one: other.get(f"/prompts/{one}", cast_to=dict[str, Any]),
                lambda one: other.get(f"/prompts/{one}/versions", cast_to=dict[str, Any]),
                lambda one: other.delete(f"/prompts/{one}", cast_to=dict[str, Any]),
                lambda one: other.post(f"/prompts/{one}", body={"messages": GREETING}, cast_to=dict[str, Any]),
                lambda one: ask(other, model, {"id": one, "variables": VALUES}),
            ):
                with pytest.raises(openai.NotFoundError) as caught:
                    call(public_id)
                bodies.append(str(caught.value.body).replace(public_id, "ID"))
        assert len(set(bodies)) == 1
        assert other.get("/prompts", cast_to=dict[str, Any])["data"] == []
    assert ask(client, model, {"id": made["id"], "variables": VALUES}).choices


def test_a_change_is_seen_by_both_gateways_within_a_second(pair: Stack) -> None:
    """Every request comes over a connection of its own, so both processes are met."""
    headers = {"authorization": f"Bearer {pair.api_key}", "connection": "close"}

    def read(public_id: str) -> httpx.Response:
        return httpx.get(f"{pair.base_url}/prompts/{public_id}", headers=headers, timeout=20)

    text = {"messages": [{"role": "user", "content": "a"}]}
    made = httpx.post(f"{pair.base_url}/prompts", headers=headers, json=text, timeout=20).json()
    url = f"{pair.base_url}/prompts/{made['id']}"
    # A prompt that was stored this moment is found by every process, whatever its filter knows.
    assert [read(made["id"]).status_code for _ in range(12)] == [200] * 12
    assert httpx.post(url, headers=headers, json=text, timeout=20).status_code == 201
    time.sleep(1.1)
    assert {read(made["id"]).json()["version"] for _ in range(12)} == {2}
    assert httpx.delete(url, headers=headers, timeout=20).status_code == 200
    time.sleep(1.1)
    assert [read(made["id"]).status_code for _ in range(12)] == [404] * 12


def test_a_prompt_that_keeps_being_missed_is_warmed_up(sim: Stack, client: OpenAI, model: str) -> None:
    """Its row goes to the store; its engine has the prefix already, from the very requests that missed the row."""
    rules = [{"role": "system", "content": "Rule of the house. " * 40}, {"role": "user", "content": "{{question}}"}]
    public_id = store(client, rules)["id"]
    rows = figure(sim, "sluice_prompt_warm_ups_total", what="row")
    warm = figure(sim, "sluice_prompt_warm_ups_total", what="warm")
    runs = len(sim.usage_rows())
    asked = 0
    while figure(sim, "sluice_prompt_warm_ups_total", what="row") == rows:
        ask(client, model, {"id": public_id, "variables": {"question": "why?"}})
        asked += 1
        assert asked < 8
        time.sleep(1.1)

    assert sim.store().hget(f"sl:prompt:{public_id}", "head")
    wait_until(lambda: figure(sim, "sluice_prompt_warm_ups_total", what="warm") > warm, 30)
    wait_until(lambda: len(sim.usage_rows()) >= runs + asked, 20)
    assert sim.query("SELECT count(*) FROM tenants_usagerecord WHERE tenant_id = 0") == [(0,)]


def made_up(count: int, since_ms: int, until_ms: int) -> list[str]:
    chance = random.Random(5)
    return [make_id(chance.randrange(since_ms, until_ms), secrets.token_bytes(RANDOM_BYTES)) for _ in range(count)]


async def look(stack: Stack, key: str, public_ids: list[str], valid: str) -> tuple[list[int], list[int]]:
    """Statuses for ids that do not exist, and for a valid one that is asked for in between."""
    codes: dict[bool, list[int]] = {False: [], True: []}
    wanted = iter([name for n, one in enumerate(public_ids) for name in ((one, valid) if n % 50 == 0 else (one,))])
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=stack.base_url, headers=headers, timeout=60) as client:

        async def one_after_another() -> None:
            for name in wanted:
                codes[name == valid].append((await client.get(f"/prompts/{name}")).status_code)

        await asyncio.gather(*(one_after_another() for _ in range(16)))
    return codes[False], codes[True]


def test_ids_that_are_made_up_do_not_reach_the_database(sim: Stack, client: OpenAI, stranger: str) -> None:
    public_id = store(client)["id"]
    wait_until(lambda: figure(sim, "sluice_filter_generation_begun_timestamp_seconds"), 20)
    now_ms = int(time.time() * 1000)
    old = made_up(2_000, 1_500_000_000_000, now_ms - 86_400_000)
    filtered = figure(sim, "sluice_prompt_lookups_total", where="filter")
    asked = figure(sim, "sluice_prompt_absent_queries_total")

    invalid, valid = asyncio.run(look(sim, sim.api_key, old, public_id))

    assert set(invalid) == {404}
    assert set(valid) == {200}
    assert figure(sim, "sluice_prompt_absent_queries_total") - asked <= 2
    assert figure(sim, "sluice_prompt_lookups_total", where="filter") - filtered >= 0.92 * len(old)


def test_ids_that_look_new_are_bounded_for_their_tenant_alone(sim: Stack, client: OpenAI, stranger: str) -> None:
    """Where the store knows no better, as just after it began, they are asked for in the database, but not often."""
    public_id = store(client)["id"]
    now_ms = int(time.time() * 1000)
    new = made_up(400, now_ms - 1_000, now_ms + 1_000)
    asked, begun = figure(sim, "sluice_prompt_absent_queries_total"), time.monotonic()
    with sim.client(api_key=stranger) as other:
        own = store(other, [{"role": "user", "content": "mine"}])["id"]

    invalid, valid = asyncio.run(look(sim, stranger, new, own))
    took_s = time.monotonic() - begun

    assert set(invalid) <= {404, 429}
    assert set(valid) == {200}
    # 20 a second, a second's worth at once, and what was under way when the limit was met.
    assert figure(sim, "sluice_prompt_absent_queries_total") - asked <= 20 * (took_s + 1) + 32
    assert client.get(f"/prompts/{public_id}", cast_to=dict[str, Any])["id"] == public_id


def test_ids_that_look_new_are_denied_by_the_store_and_not_asked_for(sim: Stack, client: OpenAI) -> None:
    public_id = store(client)["id"]
    begun_s = wait_until(lambda: figure(sim, "sluice_filter_generation_begun_timestamp_seconds"), 20)
    wait_until(lambda: time.time() > begun_s + 13, 20)  # clocks of two stores may differ by 10 s
    now_ms = int(time.time() * 1000)
    asked = figure(sim, "sluice_prompt_absent_queries_total")
    denied = figure(sim, "sluice_prompt_lookups_total", where="truth")

    invalid, valid = asyncio.run(look(sim, sim.api_key, made_up(200, now_ms - 1_000, now_ms), public_id))

    assert set(invalid) == {404}
    assert set(valid) == {200}
    assert figure(sim, "sluice_prompt_absent_queries_total") == asked
    assert figure(sim, "sluice_prompt_lookups_total", where="truth") - denied == 200
