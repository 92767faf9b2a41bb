"""Batches outlive what is done to those who work on them: every request has one result, and the books balance.

That they outlive the death of any other process is shown by the soak (``test_soak.py``), which has batches too.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

from tests import stack as stacks
from tests.acceptance import batches
from tests.acceptance.batches import ENDED, answered, chats
from tests.stack import Stack, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.chaos]

SIM = "tokens=6,itl=0.05"
COUNT = 240
BACK_S = 60.0


@pytest.fixture
def client(bulk: Stack) -> Iterator[OpenAI]:
    wait_until(lambda: all_there(bulk), BACK_S, "something did not come back")
    with bulk.client(timeout=20) as made:
        yield made


def all_there(stack: Stack) -> bool:
    there = {"celeryd: bulk-": 2, "celeryd: worker-": 2, "gateway_admin.serve": 1, "valkey-server": 1}
    return all(len(stack.children(part)) == number for part, number in there.items())


def kill(stack: Stack, part: str) -> None:
    """Kill whoever has ``part`` in the command line, without a word."""
    for victim in wait_until(lambda: stack.children(part), BACK_S, f"there is no {part}"):
        victim.kill()


def check(stack: Stack, client: OpenAI, batch_id: str, lines: list[Any]) -> None:
    """Nothing failed, was lost or came twice, and what was counted in several places is the same."""
    ended = batches.finish(client, batch_id)
    assert (ended.status, ended.request_counts.failed) == ("completed", 0)
    output, _ = batches.check_each_once(client, ended, lines)
    wait_until(lambda: all_there(stack), BACK_S, "something did not come back")
    rows = {one[0]: one for one in batches.rows_of(stack, ended)}
    told = [one["response"]["request_id"] for one in output]
    assert len(set(told)) == len(told)
    assert {rows[request_id][1] for request_id in told} == {"completed"}
    usage = ended.usage
    assert usage.input_tokens == sum(rows[request_id][3] for request_id in told)
    assert usage.output_tokens == sum(rows[request_id][5] for request_id in told)
    batches.check_books(stack)


def has_more_or_ended(count: int) -> Callable[[Any], bool]:
    has_more = answered(count)
    return lambda one: has_more(one) or one.status in ENDED


def test_a_batch_outlives_all_its_processes_again_and_again(bulk: Stack, client: OpenAI) -> None:
    lines = chats(COUNT, SIM)
    made = batches.submit(client, lines)
    done = 0
    for _ in range(2):
        stands = batches.reach(client, made.id, has_more_or_ended(done + 20))
        if stands.status in ENDED:
            break
        done = stands.request_counts.completed
        kill(bulk, "celeryd: bulk-")
    check(bulk, client, made.id, lines)


def test_a_batch_whose_messages_are_lost_goes_on(bulk: Stack, client: OpenAI) -> None:
    lines = chats(COUNT, SIM)
    made = batches.submit(client, lines)
    bulk.store(1).flushdb()  # the message that its file is to be checked, perhaps
    batches.reach(client, made.id, answered(40))
    bulk.store(1).flushdb()
    bulk.store(2).flushdb()  # what the chord has counted
    kill(bulk, "celeryd: bulk-1")  # what it had taken and not begun is lost too
    check(bulk, client, made.id, lines)


def test_a_batch_goes_on_when_the_instance_is_started_again(tmp_path: Path) -> None:
    lines = chats(COUNT, SIM)
    options = ("--engine", "simulator", "--sim-profile", "zero", "--max-num-seqs", "8", "--no-flower", "--bulk", "1")
    environ = {"SLUICE_RECONCILE_INTERVAL_S": "0"}
    with stacks.start(tmp_path / "data", *options, environ=environ) as first, first.client(max_retries=2) as client:
        made = batches.submit(client, lines)
        stands = batches.reach(client, made.id, answered(40))
        assert stands.status == "in_progress"
    with stacks.start(tmp_path / "data", *options, environ=environ) as second, second.client(max_retries=2) as client:
        check_after_restart(second, client, made.id, lines, stands.request_counts.completed)


def check_after_restart(stack: Stack, client: OpenAI, batch_id: str, lines: list[Any], done: int) -> None:
    stands = client.batches.retrieve(batch_id)
    assert stands.request_counts is not None
    assert stands.request_counts.completed >= done, "what was done is not done again"
    ended = batches.finish(client, batch_id)
    assert (ended.status, ended.request_counts.failed) == ("completed", 0)
    output, _ = batches.check_each_once(client, ended, lines)
    rows = {one[0]: one[1] for one in batches.rows_of(stack, ended)}
    assert {rows[one["response"]["request_id"]] for one in output} == {"completed"}
    batches.check_books(stack)
