"""The soak's checks find a book that differs; else its zero would say nothing."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from bench.soak_batches import TENANT, Batch, Result
from bench.soak_books import Line, Row
from bench.soak_check import Books, Check
from bench.soak_load import Attempt
from tests.stack import Stack

ANSWER = {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 4}}
PLANS = {"acme": {"requests_per_day": 2, "tokens_per_month": 40}}


class Instance:
    """Answers what the checks ask a running one."""

    def query(self, statement: str) -> list[Any]:
        return [(7, "1.5", "0.5", 6)]


def attempt(number: int, **changes: Any) -> Attempt:
    """A complete whole answer."""
    trace = f"{number:012x}" + "0" * 20
    made = Attempt(number, "chat", "acme", "/chat/completions", b"{}", trace, stream=False, idempotency_key="k")
    made.status, made.ended, made.raw = 200, "whole", json.dumps(ANSWER).encode()
    made.request_id = request_id(number)
    return dataclasses.replace(made, **changes)


def request_id(number: int) -> str:
    digits = f"{number:012x}"
    return f"{digits[:8]}-{digits[8:]}-4000-8000-000000000000"


def row(number: int, **changes: Any) -> Row:
    """The row of that attempt."""
    cost = (10 - 2) * 1500 + 2 * 500 + 4 * 6000
    made = Row(request_id(number), "acme", 1, "completed", 200, 10, 2, 4, cost, 0, "2026-11-30 12:00:00", 7)
    return dataclasses.replace(made, **changes)


def refusal(number: int, reason: str) -> Attempt:
    raw = json.dumps({"error": {"reason": reason, "code": reason}}).encode()
    return attempt(number, status=429, raw=raw)


def line(number: int, **changes: Any) -> Line:
    """What the engine of that attempt wrote down."""
    return dataclasses.replace(Line(request_id(number), "completed", 10, 2, 4, 4), **changes)


def differences(check: str, attempts: list[Attempt], rows: list[Row], journal: Sequence[Line] = ()) -> int:
    books = Books(cast("Stack", Instance()), attempts, [], rows, PLANS, journal)
    found: Callable[[], Check] = getattr(books, check)
    return len(found().differences)


REPLAY = attempt(2, original_id=request_id(1))
STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'

Case = tuple[list[Attempt], list[Row]] | tuple[list[Attempt], list[Row], list[Line]]
AGREE: dict[str, Case] = {
    "one_row_a_request": ([attempt(1)], [row(1)]),
    "answers_have_rows": ([attempt(1), REPLAY], [row(1)]),
    "refusals_have_none": ([refusal(1, "requests_per_minute"), refusal(2, "ttl")], [row(2)]),
    "told_tokens": ([attempt(1), REPLAY], [row(1)]),
    "keys_charge_once": ([attempt(1), attempt(2)], [row(1), row(2, outcome="cancelled")]),
    "replays": ([attempt(1), REPLAY], [row(1)]),
    "answers_well_formed": ([attempt(1, stream=True, raw=STREAM)], []),
    "costs": ([attempt(1)], [row(1), row(2, price_id=None, cost_nano=0, completion=0)]),
    "caps": ([], [row(1), row(2)]),
    "journal_of_completed": ([], [row(1)], [line(1, how="EngineDead", completion=1), line(1)]),
    "journal_of_others": ([], [row(1, outcome="cancelled", completion=3)], [line(1, how="aborted")]),
    "journal_has_rows": ([attempt(1)], [row(1)], [line(1), line(2)]),
}
DIFFER: dict[str, list[Case]] = {
    "one_row_a_request": [([], [row(1)]), ([attempt(1)], [row(1), row(1)])],
    "answers_have_rows": [([attempt(1)], []), ([attempt(1)], [row(1, outcome="failed")])],
    "refusals_have_none": [([refusal(1, "requests_per_minute")], [row(1)])],
    "told_tokens": [([attempt(1)], [row(1, completion=5)]), ([REPLAY], [row(1, prompt=11)])],
    "keys_charge_once": [([attempt(1), attempt(2)], [row(1), row(2)])],
    "replays": [
        ([attempt(1), dataclasses.replace(REPLAY, raw=REPLAY.raw + b" ")], [row(1)]),
        ([attempt(1), REPLAY], [row(1), row(2)]),
        ([attempt(1), REPLAY], []),
    ],
    "answers_well_formed": [([attempt(1, stream=True, raw=STREAM[: -len(b"data: [DONE]\n\n")])], [])],
    "costs": [([attempt(1)], [row(1, cost_nano=1)]), ([attempt(1)], [row(1, price_id=None, cost_nano=0)])],
    "caps": [([], [row(1), row(2), row(3)]), ([], [row(1, completion=31)])],
    "journal_of_completed": [([], [row(1)], []), ([], [row(1)], [line(1, cached=0)]), ([], [row(1)], [line(2)])],
    "journal_of_others": [([], [row(1, outcome="cancelled", completion=5)], [line(1, how="aborted")])],
    "journal_has_rows": [([attempt(1), attempt(2)], [row(1)], [line(1), line(2)])],
}


@pytest.mark.parametrize("check", AGREE)
def test_books_that_agree_show_no_difference(check: str) -> None:
    assert differences(check, *AGREE[check]) == 0


@pytest.mark.parametrize(
    ("check", "number"), [(check, n) for check, cases in DIFFER.items() for n in range(len(cases))]
)
def test_a_difference_is_found(check: str, number: int) -> None:
    assert differences(check, *DIFFER[check][number]) > 0


def batch(*results: Result, status: str = "completed") -> Batch:
    """A batch of two requests."""
    return Batch(["a", "b"], {"id": "batch_1", "status": status}, list(results))


A, B = Result("a", 200, request_id(1), 10, 4), Result("b", 200, request_id(2), 10, 4)


@pytest.mark.parametrize(
    ("found", "differ"),
    [
        (batch(A, B), 0),
        (batch(A), 1),
        (batch(A, A, B), 1),
        (batch(A, dataclasses.replace(B, status=502)), 1),
        (batch(A, B, status="in_progress"), 1),
    ],
)
def test_a_batch_has_one_answer_for_each_request(found: Batch, differ: int) -> None:
    books = Books(cast("Stack", Instance()), [], [found], [], PLANS, [])
    assert len(books.batches_are_whole().differences) == differ


@pytest.mark.parametrize(
    ("rows", "differ"),
    [
        ([row(1), row(2)], 0),
        ([row(1), row(2), row(3, outcome="gateway_lost")], 0),
        ([row(1)], 1),
        ([row(1), row(2, completion=5)], 1),
        ([row(1), row(2, outcome="cancelled")], 1),
    ],
)
def test_each_answer_of_a_batch_is_charged_as_it_tells(rows: list[Row], differ: int) -> None:
    books = Books(cast("Stack", Instance()), [], [batch(A, B)], rows, PLANS, [])
    assert len(books.batches_are_charged().differences) == differ


def test_rows_of_batches_belong_to_no_attempt() -> None:
    assert differences("one_row_a_request", [], [row(1, tenant=TENANT), row(1, tenant=TENANT)]) == 0
