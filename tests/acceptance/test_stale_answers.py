"""When computing fails, the last good answer is given and marked; who may have none or asks wrongly gets the error."""

import os
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tests.acceptance import sse
from tests.acceptance.load import MODEL, SOON_S, at_rest
from tests.stack import ROOT, Stack, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.timeout(300)]

GREEDY: Mapping[str, Any] = {"temperature": 0, "max_tokens": 500}
STORE_S, GRACE_S = 40.0, 60.0
SWITCH, QUEUE = "sl:switch", f"queue:{MODEL}:p1"


@pytest.fixture(scope="module")
def keys(keeping: Stack) -> dict[str, str]:
    """Plans of which the first keeps a fresh answer for a second only, so that a repetition has to be computed."""
    soon = {"response_cache_ttl_s": 1}
    return keeping.add_tenants(
        {
            "stale-day": soon,
            "stale-second": {**soon, "max_stale_s": 1},
            "stale-never": {**soon, "max_stale_s": 0},
            "stale-erased": {},
        }
    )


def question() -> str:
    """One that nobody has asked before."""
    return f"What of gate {uuid.uuid4()}?"


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **GREEDY, **fields}


def ask(stack: Stack, body: dict[str, Any], key: str, **headers: str) -> httpx.Response:
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    told |= {"authorization": f"Bearer {key}", "connection": "close"}
    return httpx.post(f"{stack.base_url}/chat/completions", headers=told, json=body, timeout=60)


def compute(stack: Stack, body: dict[str, Any], key: str) -> httpx.Response:
    """Ask for the first time, and wait until the answer is on the disk and no longer fresh."""
    response = ask(stack, body, key)
    assert response.status_code == 200, response.text
    assert response.headers["x-cache"] == "miss"
    with drained(stack):
        wait_until(lambda: ask(stack, body, key).headers.get("x-cache") in ("stale", None), SOON_S)
    return response


@contextmanager
def drained(stack: Stack) -> Iterator[None]:
    """Nothing new is taken: 503."""
    stack.store().hset(SWITCH, QUEUE, "draining")
    try:
        yield
    finally:
        stack.store().hdel(SWITCH, QUEUE)


def is_stale(response: httpx.Response, first: httpx.Response) -> None:
    """It is the last good answer, with all that says so."""
    assert response.status_code == 200, response.text
    headers = response.headers
    assert (headers["x-cache"], headers["x-sluice-cache"]) == ("stale", "stale")
    assert headers["warning"].startswith("110 ")
    assert int(headers["age"]) >= 0
    if headers["content-type"].startswith("text/event-stream"):
        (message,) = [choice["message"] for choice in first.json()["choices"]]
        assert sse.read(response.text.encode()).text == message["content"]
    else:
        assert response.json()["choices"] == first.json()["choices"]
        assert response.json()["id"] != first.json()["id"]


def row_of(stack: Stack, response: httpx.Response) -> tuple[Any, ...]:
    name = response.headers["x-request-id"]
    rows = wait_until(
        lambda: [row for row in stack.usage_rows("request_id, outcome, status, cache") if row[0] == name], SOON_S
    )
    return tuple(rows[0][1:])


# --- failures -------------------------------------------------------------------------------------------------------


def test_where_no_request_is_taken_the_last_good_answer_is_given_whole_and_as_a_stream(
    keeping: Stack, keys: dict[str, str]
) -> None:
    body = chat(question())
    first = compute(keeping, body, keys["stale-day"])
    with drained(keeping):
        whole = ask(keeping, body, keys["stale-day"])
        is_stale(whole, first)
        is_stale(ask(keeping, {**body, "stream": True}, keys["stale-day"]), first)
        assert ask(keeping, chat(question()), keys["stale-day"]).status_code == 503  # nobody asked that before
    assert row_of(keeping, whole) == ("completed", 200, "stale")
    assert ask(keeping, body, keys["stale-day"]).headers["x-cache"] == "miss"  # it is computed again


def test_an_answer_that_takes_too_long_is_replaced_by_the_last_good_one(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question(), metadata={"sim": "delay=2,tokens=5"})
    first = compute(keeping, body, keys["stale-day"])
    is_stale(ask(keeping, {**body, "timeout": 1}, keys["stale-day"]), first)
    refused = ask(keeping, {**body, "timeout": 1}, keys["stale-day"], cache_control="no-cache")
    assert refused.status_code == 504  # its client wants a new one or none
    at_rest(keeping)


def test_without_engines_the_last_good_answer_is_given(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    first = compute(keeping, body, keys["stale-day"])
    workers = keeping.children("celeryd: worker-")
    for worker in workers:
        worker.suspend()
    try:
        # For a moment they are expected back, and requests wait; a short patience keeps that short.
        hurried = {**body, "timeout": 1}
        stale = wait_until(lambda: _if_stale(ask(keeping, hurried, keys["stale-day"])), GRACE_S)
        is_stale(stale, first)
        refused = ask(keeping, hurried, keys["stale-never"])
        assert (refused.status_code, refused.json()["error"]["reason"]) == (503, "no_backend")
    finally:
        for worker in workers:
            worker.resume()
    wait_until(lambda: _all_gateways_answer(keeping, keys["stale-day"]), GRACE_S)
    at_rest(keeping)


def _all_gateways_answer(stack: Stack, key: str) -> bool:
    """Each of them looks for itself whether the engines are back; so many requests hardly meet only one of two."""
    return all(ask(stack, chat(question()), key).status_code == 200 for _ in range(8))


def _if_stale(response: httpx.Response) -> httpx.Response | None:
    return response if response.headers.get("x-cache") == "stale" else None


@contextmanager
def without_store(stack: Stack) -> Iterator[None]:
    """The store dies and cannot come up: at its address is somebody who hangs up on everybody."""
    (store,) = stack.children("valkey-server")
    store.kill()
    place = wait_until(lambda: _take(stack.valkey_port), STORE_S)
    hanging_up = threading.Thread(target=_hang_up, args=(place,))
    hanging_up.start()
    try:
        yield
    finally:
        place.shutdown(socket.SHUT_RDWR)
        hanging_up.join()
        place.close()
        wait_until(lambda: _is_there(stack), STORE_S)


def _take(port: int) -> socket.socket | None:
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def _hang_up(place: socket.socket) -> None:
    while True:
        try:
            place.accept()[0].close()
        except OSError:  # shut down
            return


def _is_there(stack: Stack) -> bool:
    try:
        return bool(stack.store().ping())
    except Exception:  # not yet, in whatever way
        return False


def test_without_the_store_it_is_given_too_but_to_nobody_without_a_key_and_to_no_wrong_request(
    keeping: Stack, keys: dict[str, str]
) -> None:
    body = chat(question())
    first, never = (compute(keeping, body, keys[name]) for name in ("stale-day", "stale-never"))
    assert never.status_code == 200
    with without_store(keeping):
        stale = wait_until(lambda: _if_stale(ask(keeping, body, keys["stale-day"])), STORE_S)
        is_stale(stale, first)
        assert ask(keeping, body, "sk-sluice-wrong").status_code == 401
        assert ask(keeping, {**body, "temperature": 9}, keys["stale-day"]).status_code == 400
        assert ask(keeping, {**body, "model": "no-such"}, keys["stale-day"]).status_code == 404
        assert ask(keeping, body, keys["stale-never"]).status_code == 503
        assert ask(keeping, chat(question()), keys["stale-day"]).status_code == 503
        bare = ask(keeping, body, keys["stale-day"], cache_control="only-if-cached")
        assert bare.status_code in (503, 504)
    wait_until(lambda: ask(keeping, chat(question()), keys["stale-day"]).status_code == 200, GRACE_S)
    assert row_of(keeping, stale) == ("completed", 200, "stale")  # settled when the store was there again


def test_who_waits_when_the_store_goes_away_is_given_the_last_good_answer(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    first = compute(keeping, body, keys["stale-day"])
    keeping.store().hset(SWITCH, QUEUE, "paused")
    try:
        with ThreadPoolExecutor() as pool:
            asked = [pool.submit(ask, keeping, {**body, "stream": one}, keys["stale-day"]) for one in (False, True)]
            wait_until(lambda: keeping.store().zcard(f"sl:ready:{MODEL}:p1") >= 1, SOON_S)
            with without_store(keeping):
                for one in asked:
                    is_stale(one.result(), first)
    finally:
        keeping.store().hdel(SWITCH, QUEUE)
    wait_until(lambda: ask(keeping, chat(question()), keys["stale-day"]).status_code == 200, GRACE_S)
    at_rest(keeping)


# --- who gets none --------------------------------------------------------------------------------------------------


def test_an_answer_older_than_the_plan_allows_is_not_given(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    assert ask(keeping, body, keys["stale-second"]).status_code == 200
    with drained(keeping):
        wait_until(lambda: ask(keeping, body, keys["stale-second"]).status_code == 503, SOON_S)


def test_a_plan_without_stale_answers_gets_the_error(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    compute(keeping, body, keys["stale-never"])
    with drained(keeping):
        refused = ask(keeping, body, keys["stale-never"])
    assert (refused.status_code, refused.json()["error"]["reason"]) == (503, "queue_draining")
    assert "x-cache" not in refused.headers


def test_another_tenant_is_given_nothing_of_it(keeping: Stack, keys: dict[str, str]) -> None:
    body = chat(question())
    compute(keeping, body, keys["stale-day"])
    with drained(keeping):
        assert ask(keeping, body, keys["stale-erased"]).status_code == 503


def test_an_erased_tenant_s_answers_are_gone_from_both_gateways_store_and_disk(
    keeping: Stack, keys: dict[str, str]
) -> None:
    body, key = chat(question()), keys["stale-erased"]
    assert ask(keeping, body, key).headers["x-cache"] == "miss"
    wait_until(lambda: {ask(keeping, body, key).headers["x-cache"] for _ in range(8)} == {"hit"}, SOON_S)

    command = [sys.executable, "manage.py", "erase", "stale-erased", "--yes"]
    environ = {**os.environ, "SLUICE_DATA_DIR": str(keeping.data_dir)}
    done = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 of 2 gateways" in done.stdout
    with drained(keeping):
        assert {ask(keeping, body, key).status_code for _ in range(8)} == {503}
    assert ask(keeping, body, key).headers["x-cache"] == "miss"
