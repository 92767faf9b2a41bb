"""Equal requests that are under way at once run once over all gateways; whoever shares the run is always answered."""

import asyncio
import json
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.acceptance import sse
from tests.acceptance.caller import Caller
from tests.acceptance.conftest import JOURNAL
from tests.acceptance.load import MODEL, at_rest, client_of, rooms, until
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

TOKENS = 30
BACK_S = 40.0


@pytest.fixture(autouse=True)
def _at_rest(keeping: Stack) -> None:
    wait_until(lambda: len(rooms(keeping, "p1")) == 2, BACK_S, "a worker is not back")
    wait_until(lambda: len(list(keeping.store().scan_iter("sl:gateway:*"))) == 2, BACK_S, "a gateway is not back")
    at_rest(keeping)


def body_of(sim: str = f"tokens={TOKENS},itl=0.05", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Question {uuid.uuid4()}"}]
    return {"model": MODEL, "messages": messages, "temperature": 0, "metadata": {"sim": sim}, **fields}


async def ask(client: httpx.AsyncClient, body: dict[str, Any]) -> httpx.Response:
    # One listening socket feeds both gateways: fresh connections reach either.
    return await client.post("/chat/completions", json=body, headers={"connection": "close"})


def journal(stack: Stack) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(stack.data_dir).parent / JOURNAL).read_text().splitlines()]


def followers(stack: Stack) -> int:
    """Requests that share another's run now."""
    store = stack.store()
    return sum(int(store.scard(name)) for name in store.scan_iter("sl:followers:*"))


def words(responses: list[httpx.Response]) -> Counter[str]:
    return Counter(one.headers["x-cache"] for one in responses)


def rows_of(stack: Stack, responses: list[httpx.Response]) -> Counter[tuple[Any, ...]]:
    names = {one.headers["x-request-id"] for one in responses}
    columns = "request_id, outcome, cache, completion_tokens, retry_attempt"
    at_rest(stack)
    found = wait_until(
        lambda: (
            rows if len(rows := [one for one in stack.usage_rows(columns) if one[0] in names]) == len(names) else []
        ),
        BACK_S,
    )
    return Counter(row[1:] for row in found)


@pytest.mark.parametrize("stream", [True, False])
async def test_fifty_equal_requests_run_once(keeping: Stack, stream: bool) -> None:
    body = body_of("delay=1,tokens=30", stream=stream)
    before = len(journal(keeping))
    async with client_of(keeping) as client:
        responses = await asyncio.gather(*(ask(client, body) for _ in range(50)))
    assert len(journal(keeping)) == before + 1
    # Who came when the answer was kept already is given it.
    found = words(responses)
    assert found["miss"] == 1
    assert found["coalesced"] + found["hit"] == 49
    assert found["coalesced"] > 0
    if stream:
        read = [sse.strict_response(one) for one in responses]
        assert len({one.text for one in read}) == 1
        ids = [{chunk["id"] for chunk in one.chunks} for one in read]
    else:
        assert len({json.dumps(one.json()["choices"]) for one in responses}) == 1
        ids = [{one.json()["id"]} for one in responses]
    assert ids == [{f"chatcmpl-{one.headers['x-request-id']}"} for one in responses]
    rows = rows_of(keeping, responses)
    assert rows[("completed", "", TOKENS, 0)] == 1
    assert rows[("completed", "coalesced", 0, 0)] == found["coalesced"]
    assert sum(rows.values()) == 50


async def test_whoever_comes_in_the_middle_gets_the_beginning_too(keeping: Stack) -> None:
    body = body_of(stream=True)
    async with client_of(keeping) as client:
        first = asyncio.create_task(ask(client, body))
        await until(lambda: keeping.store().exists("sl:slots:t:1") or keeping.leftovers())
        await asyncio.sleep(0.4)  # some of it is made
        others = [asyncio.create_task(ask(client, body)) for _ in range(6)]
        responses = [await first, *(await asyncio.gather(*others))]
    assert words(responses) == {"miss": 1, "coalesced": 6}
    assert len({sse.strict_response(one).text for one in responses}) == 1


async def test_requests_of_another_form_or_question_run_by_themselves(keeping: Stack) -> None:
    body = body_of("delay=1,tokens=5")
    bodies = [body, body | {"stream": True}, body | {"seed": 1}]
    async with client_of(keeping) as client:
        responses = await asyncio.gather(*(ask(client, one) for one in bodies))
    assert words(responses) == {"miss": 3}


@pytest.mark.parametrize("stream", [True, False])
async def test_a_run_goes_on_for_others_when_its_own_client_leaves(keeping: Stack, stream: bool) -> None:
    body = body_of(f"tokens={TOKENS},itl=0.1", stream=stream)
    before = len(journal(keeping))
    leader = Caller(keeping, body)
    await until(lambda: keeping.leftovers().get("item"))
    async with client_of(keeping) as client:
        tasks = [asyncio.create_task(ask(client, body)) for _ in range(6)]
        await until(lambda: followers(keeping) == 6)
        await asyncio.sleep(0.3)  # the leader's gateway has heard of them
        leader.leave()
        responses = await asyncio.gather(*tasks)
    assert words(responses) == {"coalesced": 6}
    assert rows_of(keeping, responses) == {("completed", "coalesced", 0, 0): 6}
    assert [line["how"] for line in journal(keeping)[before:]] == ["completed"]


async def test_a_run_ends_when_nobody_shares_it_any_more(keeping: Stack) -> None:
    body = body_of("tokens=4000,itl=0.05", stream=True)
    callers = [Caller(keeping, body)]
    await until(lambda: keeping.leftovers().get("item"))
    callers += [Caller(keeping, body) for _ in range(3)]
    await until(lambda: followers(keeping) == 3)
    for caller in callers:
        caller.leave()
    at_rest(keeping)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_run_that_fails_is_taken_over_by_one_of_those_that_share_it(keeping: Stack, stream: bool) -> None:
    """Of those that have nothing yet one runs anew, and the others share that; the answer of the first is an error."""
    body = body_of("delay=1,error=500", stream=stream)
    async with client_of(keeping) as client:
        responses = await asyncio.gather(*(ask(client, body) for _ in range(4)))
    assert [one.status_code for one in responses] == [502] * 4
    at_rest(keeping)


def gateway_of(stack: Stack, gateway_id: str) -> psutil.Process:
    found = stack.children("gateway_admin.serve")
    return next(one for one in found if gateway_id.startswith(one.environ()["SLUICE_GATEWAY_ID"]))


@pytest.mark.chaos
@pytest.mark.parametrize("stream", [True, False])
async def test_a_killed_gateway_takes_no_run_along_that_others_share(keeping: Stack, stream: bool) -> None:
    body = body_of("tokens=60,itl=0.1", stream=stream)
    leader = Caller(keeping, body)
    name = (await until(lambda: next(keeping.store().scan_iter("sl:gwitems:*"), b""))).decode()
    victim = gateway_of(keeping, name.removeprefix("sl:gwitems:"))
    async with client_of(keeping) as client:
        victim.suspend()  # so that the others land on the other gateway
        tasks = [asyncio.create_task(ask(client, body)) for _ in range(6)]
        await until(lambda: followers(keeping) == 6)
        victim.resume()
        await asyncio.sleep(0.5)  # some of the answer is passed on
        victim.kill()
        answered = await asyncio.gather(*tasks)
    leader.leave()
    if stream:
        texts = {sse.strict_response(one).text for one in answered}
    else:
        texts = {one.json()["choices"][0]["message"]["content"] for one in answered}
    assert len(texts) == 1
    assert {row[0] for row in rows_of(keeping, answered)} == {"completed"}


@pytest.mark.chaos
async def test_a_killed_worker_costs_nobody_who_shares_its_run_the_answer(keeping: Stack) -> None:
    body = body_of("tokens=100,itl=0.1", stream=True)
    async with client_of(keeping) as client:
        tasks = [asyncio.create_task(ask(client, body)) for _ in range(6)]
        await until(lambda: followers(keeping) == 5)
        holder = await until(lambda: next(keeping.store().scan_iter("sl:held:*"), b""))
        keeping.children(f"celeryd: {holder.decode().removeprefix('sl:held:')}")[0].kill()
        responses = await asyncio.gather(*tasks)
    assert len({sse.strict_response(one).text for one in responses}) == 1
    assert words(responses) == {"miss": 1, "coalesced": 5}
