"""A lost engine costs a retry, which goes on where the answer was and tells its cause; one request that kills engines
costs nobody else anything."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from domain.qos import POLICIES, QosClass
from tests.acceptance import load, sse
from tests.acceptance.load import body_of, logged, post, rows_of, until
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

TOKENS = 40
BACK_S = 40.0


@pytest.fixture(scope="module")
def key(pair: Stack) -> str:
    """Of a tenant that may use every class."""
    return pair.add_tenants({"every-class": {"best_class": "p0"}})["every-class"]


@pytest.fixture(autouse=True)
def _at_rest(pair: Stack) -> None:
    wait_until(lambda: len(load.rooms(pair, "p1")) == 2, BACK_S, "a worker is not back")
    load.at_rest(pair)


@dataclass(slots=True)
class Stream:
    """A client's stream: what it asked, and all it ever got."""

    body: dict[str, Any]
    request_id: str = ""
    raw: bytes = b""

    async def read(self, client: httpx.AsyncClient) -> None:
        async with client.stream("POST", "/chat/completions", json=self.body | {"stream": True}) as response:
            assert response.status_code == 200, await response.aread()
            self.request_id = response.headers["x-request-id"]
            async for part in response.aiter_raw():
                self.raw += part

    @property
    def flows(self) -> bool:
        return self.raw.count(b"data: ") >= 5


def streams_of_all_classes(count: int) -> list[Stream]:
    script = f"tokens={TOKENS},itl=0.05"
    return [Stream(body_of(script, QosClass(f"p{number % 3}"), f"Question {number}")) for number in range(count)]


async def undisturbed(stack: Stack, key: str, streams: list[Stream]) -> list[str]:
    """The answers as they are when nothing happens."""
    bodies = [one.body | {"metadata": {"sim": f"tokens={TOKENS}"}} for one in streams]
    answers = await load.post_all(stack, bodies, key)
    return [answer.json()["choices"][0]["message"]["content"] for answer in answers]


@pytest.mark.chaos
async def test_a_killed_workers_streams_go_on_elsewhere_and_tell_why(pair: Stack, key: str) -> None:
    streams = streams_of_all_classes(12)
    texts = await undisturbed(pair, key, streams)
    async with load.client_of(pair, key) as client:
        tasks = [asyncio.create_task(one.read(client)) for one in streams]
        await until(lambda: all(one.flows for one in streams))
        victim = max(load.workers(pair), key=lambda one: len(load.held(pair, one)))
        pair.children(f"celeryd: {victim}")[0].kill()
        await asyncio.gather(*tasks)
    assert [sse.strict(one.raw).text for one in streams] == texts
    rows = rows_of(pair, [one.request_id for one in streams])
    assert {row["outcome"] for row in rows} == {"completed"}
    assert {row["completion_tokens"] for row in rows} == {TOKENS}
    moved = {row["request_id"]: row for row in rows if row["retry_attempt"]}
    assert moved
    assert {(row["retry_attempt"], row["rollback_cause"]) for row in moved.values()} == {(1, "worker_lost")}
    told = {line["request_id"]: line for line in logged(pair, "item_runs_again")}
    for request_id, row in moved.items():
        check_line(told[request_id], row)


def check_line(line: dict[str, Any], row: dict[str, Any]) -> None:
    """It names the batch that was lost and the one that goes on, and what the client had by then."""
    assert (line["retry_attempt"], line["rollback_cause"]) == (1, "worker_lost")
    (cause,) = line["causes"]
    kind, _, batch_before = cause.partition("@")
    assert kind == "worker_lost"
    assert batch_before.startswith("b-")
    assert line["batch_id"] == row["batch_id"] != batch_before
    assert line["item_seq"] >= 0
    assert 0 < line["delivered_tokens"] < TOKENS


@pytest.mark.parametrize("qos_class", list(QosClass))
async def test_a_request_that_always_fails_is_retried_as_often_as_its_class_allows(
    pair: Stack, key: str, qos_class: QosClass
) -> None:
    before = load.metric(pair, 'sluice_rollbacks_total{cause="engine_error"}')
    answer = await post(pair, body_of("die_after=0", qos_class), key)
    assert (answer.status_code, sse.error_of(answer)["code"]) == (502, "engine_failed")
    (row,) = rows_of(pair, [answer.headers["x-request-id"]])
    runs = [line for line in logged(pair, "item_given_back") if line["request_id"] == row["request_id"]]
    assert len(runs) == 1 + POLICIES[qos_class].max_retries
    assert {line["rollback_cause"] for line in runs} == {row["rollback_cause"]} == {"engine_error"}
    assert row["retry_attempt"] == POLICIES[qos_class].max_retries
    assert load.metric(pair, 'sluice_rollbacks_total{cause="engine_error"}') == before + len(runs)


@pytest.mark.chaos
@pytest.mark.parametrize("script", ["kill_engine=0", "kill_engine=3"])
async def test_a_request_that_kills_engines_is_quarantined_and_costs_its_neighbours_nothing(
    pair: Stack, key: str, script: str
) -> None:
    streams = streams_of_all_classes(12)
    texts = await undisturbed(pair, key, streams)
    deaths = Counter(line["process"] for line in logged(pair, "engine_dead"))
    async with load.client_of(pair, key) as client:
        tasks = [asyncio.create_task(one.read(client)) for one in streams]
        await until(lambda: all(one.flows for one in streams))
        poison = await client.post("/chat/completions", json=body_of(f"{script},tokens={TOKENS},itl=0.05"))
        await asyncio.gather(*tasks)
    assert (poison.status_code, sse.error_of(poison)["code"]) == (502, "quarantined")
    assert poison.headers["x-should-retry"] == "false"
    assert [sse.strict(one.raw).text for one in streams] == texts
    rows = rows_of(pair, [one.request_id for one in streams] + [poison.headers["x-request-id"]])
    assert [row["outcome"] for row in rows] == ["completed"] * len(streams) + ["failed"]
    assert (rows[-1]["error_code"], rows[-1]["retry_attempt"], rows[-1]["rollback_cause"]) == (
        "quarantined",
        1,
        "engine_dead",
    )
    died = Counter(line["process"] for line in logged(pair, "engine_dead")) - deaths
    assert died.total() == 2, died
    wait_until(lambda: len(load.rooms(pair, "p1")) == 2, BACK_S, "a worker is not back")
    assert (await post(pair, body_of("tokens=2"), key)).status_code == 200
