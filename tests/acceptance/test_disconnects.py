"""Clients that leave: whatever ran or waited for them ends everywhere, and is counted once."""

import socket
import time
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.acceptance.caller import Caller
from tests.stack import Stack, wait_until

pytestmark = pytest.mark.stack

MODEL = "smollm2-135m-instruct"
SEQUENCES = 32
SOON_S = 5.0


def body_of(sim: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Count to a million."}]
    return {"model": MODEL, "messages": messages, "stream": True, "metadata": {"sim": sim}, **fields}


def room(stack: Stack) -> int:
    """Sequences that the engines have free, all workers together."""
    return sum(int(free) for free in stack.store().hvals(f"sl:room:{MODEL}:p0"))


def waiting(stack: Stack) -> int:
    return sum(int(stack.store().zcard(f"sl:ready:{MODEL}:{name}")) for name in ("p0", "p1", "p2"))


def is_quiet(stack: Stack) -> bool:
    return stack.leftovers() == {} and room(stack) == SEQUENCES


def count_outcomes(stack: Stack) -> dict[str, int]:
    counts: dict[str, int] = {}
    for _, outcome, *_ in stack.usage_rows():
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts


@pytest.mark.parametrize(
    "fields",
    [{"stream": False, "max_tokens": 4000}, {"stream": True}, {"stream": True, "n": 4}, {"stream": False, "n": 4}],
    ids=["whole", "stream", "stream of four", "whole of four"],
)
@pytest.mark.parametrize("script", ["tokens=4000,itl=0.05", "hang_after=0"])
def test_an_engine_stops_when_its_client_leaves(sim: Stack, fields: dict[str, Any], script: str) -> None:
    wait_until(lambda: is_quiet(sim), SOON_S)
    before = count_outcomes(sim).get("cancelled", 0)
    caller = Caller(sim, body_of(script, **fields))
    wait_until(lambda: room(sim) == SEQUENCES - fields.get("n", 1), SOON_S)
    caller.leave()
    wait_until(lambda: is_quiet(sim), SOON_S, "the engine goes on for nobody")
    wait_until(lambda: count_outcomes(sim).get("cancelled", 0) == before + 1, SOON_S)


def test_what_was_delivered_before_the_client_left_is_charged(sim: Stack) -> None:
    caller = Caller(sim, body_of("tokens=4000,itl=0.02"))
    head = caller.read_until(b'"content":" ')
    request_id = head.split(b"x-request-id: ")[1].split(b"\r\n")[0].decode()
    caller.leave()
    found = wait_until(lambda: [one for one in sim.usage_rows() if one[0] == request_id], SOON_S)
    assert found[0][1:3] == ("cancelled", 499)
    assert found[0][3] > 0
    assert 2 <= found[0][4] < 4000


def test_a_request_whose_client_leaves_while_it_waits_never_runs(sim: Stack) -> None:
    wait_until(lambda: is_quiet(sim), SOON_S)
    holders = [Caller(sim, body_of("hang_after=1")) for _ in range(SEQUENCES)]
    wait_until(lambda: room(sim) == 0, SOON_S)
    before = {request_id for request_id, *_ in sim.usage_rows()}
    late = Caller(sim, body_of("tokens=5"))
    wait_until(lambda: waiting(sim) == 1, SOON_S)
    late.leave()
    wait_until(lambda: waiting(sim) == 0, SOON_S)
    columns = "request_id, outcome, status, worker_id, claimed_at"
    rows = wait_until(lambda: [one for one in sim.usage_rows(columns) if one[0] not in before], SOON_S)
    assert [one[1:] for one in rows] == [("cancelled", 499, "", None)]
    for holder in holders:
        holder.leave()
    wait_until(lambda: is_quiet(sim), SOON_S)


def test_a_slot_is_back_after_every_cut_stream(sim: Stack) -> None:
    key = sim.add_tenants({"one-slot": {"max_concurrent": 1}})["one-slot"]
    for _ in range(200):
        caller = Caller(sim, body_of("tokens=4000,itl=0.005"), key)
        caller.read_until(b"chat.completion.chunk")
        caller.leave()
        wait_until(lambda: not list(sim.store().scan_iter("sl:slots:*")), SOON_S)
    with sim.http(headers={"authorization": f"Bearer {key}"}) as client:
        assert client.post("/chat/completions", json=body_of("", stream=False)).status_code == 200
    rows = wait_until(lambda: _rows_of(sim, "one-slot", 201), SOON_S)
    assert [one[0] for one in rows].count("cancelled") == 200
    assert sim.leftovers() == {}


def _rows_of(stack: Stack, tenant: str, count: int) -> list[Any]:
    rows = stack.usage_rows("outcome, (SELECT slug FROM tenants_tenant WHERE id = tenant_id)")
    mine = [one for one in rows if one[1] == tenant]
    return mine if len(mine) >= count else []


def test_a_client_that_leaves_in_the_middle_of_its_body_costs_nothing(sim: Stack) -> None:
    rows = len(sim.usage_rows())
    where = urlsplit(sim.base_url)
    for _ in range(5):
        with socket.create_connection((where.hostname, where.port), timeout=20) as connection:
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {sim.api_key}\r\n"
            connection.sendall(f"{head}content-length: 100000\r\n\r\n{{".encode())
    with sim.http() as client:
        assert client.post("/chat/completions", json=body_of("", stream=False)).status_code == 200
    wait_until(lambda: len(sim.usage_rows()) == rows + 1, SOON_S)


def test_a_client_that_reads_slowly_delays_nobody_and_gets_all(sim: Stack) -> None:
    size = 8 * 1024 * 1024
    slow = Caller(sim, body_of(f"big={size}"))
    slow.read_until(b"\r\n\r\n")
    with sim.http() as client:
        assert client.post("/chat/completions", json=body_of("", stream=False)).status_code == 200
    assert slow.read_until(b"data: [DONE]\n\n").count(b"finish_reason") >= size // (64 * 1024)
    slow.leave()


@pytest.mark.vllm
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_the_real_engine_stops_when_its_client_leaves(real: Stack, stream: bool) -> None:
    wait_until(lambda: room(real) == SEQUENCES, 30)
    caller = Caller(real, body_of("", stream=stream, max_tokens=4000, ignore_eos=True) | {"metadata": {}})
    wait_until(lambda: room(real) == SEQUENCES - 1, 30)
    assert not _is_idle(real)
    caller.leave()
    wait_until(lambda: is_quiet(real), 10, "the engine goes on for nobody")
    wait_until(lambda: _is_idle(real), 20, "vLLM still runs the request")
    wait_until(lambda: count_outcomes(real).get("cancelled", 0) >= 1, SOON_S)


def _is_idle(stack: Stack) -> bool:
    """No process of the instance works."""
    before = _cpu_s(stack)
    time.sleep(1)
    return _cpu_s(stack) - before < 0.4


def _cpu_s(stack: Stack) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in stack.children(""))


@pytest.mark.vllm
def test_a_slot_is_back_after_every_stream_cut_on_the_real_engine(real: Stack) -> None:
    key = real.add_tenants({"one-real-slot": {"max_concurrent": 1}})["one-real-slot"]
    for _ in range(10):
        caller = Caller(real, body_of("", max_tokens=4000, ignore_eos=True) | {"metadata": {}}, key)
        caller.read_until(b"chat.completion.chunk")
        caller.leave()
        wait_until(lambda: not list(real.store().scan_iter("sl:slots:*")), 10)
    with real.http(headers={"authorization": f"Bearer {key}"}) as client:
        body = body_of("", stream=False, max_tokens=2) | {"metadata": {}}
        assert client.post("/chat/completions", json=body).status_code == 200
    wait_until(lambda: is_quiet(real), 10)
