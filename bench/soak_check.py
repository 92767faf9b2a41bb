"""What must hold after the soak, each an exact identity between two books that were kept apart.

The books: the clients' (``soak_load``), the usage rows, the store's counters, and the simulators' own journals.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from bench.soak_batches import TENANT, Batch
from bench.soak_books import Line, Row
from bench.soak_load import Attempt, by_key
from domain.limits import Amount
from tests.acceptance import sse
from tests.stack import Stack

# Refusals of what was admitted; every other refusal was spoken before admission.
AFTER_ADMISSION = frozenset(
    {"ttl", "rejected", "quarantined", "cancelled", "engine_failed", "timeout", "internal", "store_unavailable"}
)

Plans = Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Check:
    """One identity, how many things it was held against, and where it does not hold."""

    identity: str
    looked_at: int = 0
    differences: list[str] = field(default_factory=list)

    def hold(self, holds: bool, what: str) -> None:
        """Count one more, and note it if it does not hold."""
        self.looked_at += 1
        if not holds:
            self.differences.append(what)


class Books:
    """The books side by side."""

    def __init__(
        self,
        stack: Stack,
        attempts: Sequence[Attempt],
        batches: Sequence[Batch],
        rows: Sequence[Row],
        plans: Plans,
        journal: Sequence[Line],
    ) -> None:
        self._stack, self._attempts, self._rows, self._plans = stack, attempts, rows, plans
        self._batches = batches
        self._lines: dict[str, list[Line]] = defaultdict(list)
        for line in journal:
            self._lines[line.request_id].append(line)
        self._by_id = {row.request_id: row for row in rows}
        self._by_mark = {row.mark: row for row in rows}

    def checks(self) -> list[Check]:
        """All of them."""
        return [
            self.nothing_left(),
            self.one_row_a_request(),
            self.answers_have_rows(),
            self.refusals_have_none(),
            self.told_tokens(),
            self.keys_charge_once(),
            self.replays(),
            self.answers_well_formed(),
            self.counters(),
            self.costs(),
            self.caps(),
            self.journal_of_completed(),
            self.journal_of_others(),
            self.journal_has_rows(),
            self.batches_are_whole(),
            self.batches_are_charged(),
        ]

    def nothing_left(self) -> Check:
        """At rest the store holds nothing of any request."""
        check = Check("no item, slot, seat, place in line, running note or reserved amount is left")
        store = self._stack.store()
        for kind, number in self._stack.leftovers().items():
            check.hold(False, f"{number} keys sl:{kind}:*")
        for key in store.scan_iter("sl:spent:*", count=1000):
            held = {name: amount for name, amount in _numbers(store, key).items() if name.startswith("h")}
            check.hold(not any(held.values()), f"{key!r} holds {held}")
        for key in store.scan_iter("sl:idem:*", count=1000):
            check.hold(store.hget(key, "state") == b"done", f"{key!r} runs")
        return check

    def one_row_a_request(self) -> Check:
        """Rows and attempts match one to one, also where no byte of an answer came."""
        check = Check("every usage row belongs to one attempt, and no attempt to two rows")
        marks = {attempt.mark for attempt in self._attempts}
        for mark, number in Counter(row.mark for row in self._rows if row.tenant != TENANT).items():
            check.hold(number == 1 and mark in marks, f"{mark}: {number} rows")
        return check

    def answers_have_rows(self) -> Check:
        """Who was answered was charged."""
        check = Check("every answer (200) of a request's own has exactly one row, and every complete one says so there")
        for attempt in self._attempts:
            if attempt.status == 200 and not attempt.original_id:
                row = self._by_id.get(attempt.request_id)
                is_right = row is not None and (row.outcome == "completed" or not attempt.is_complete)
                check.hold(is_right, f"{attempt.request_id}: {row}")
        return check

    def refusals_have_none(self) -> Check:
        """Who was refused before admission was not charged."""
        check = Check("what was refused before admission has no row")
        for attempt in self._attempts:
            if attempt.error and attempt.error.get("reason") not in AFTER_ADMISSION:
                row = self._by_mark.get(attempt.mark)
                check.hold(row is None, f"{attempt.error}: {row}")
        return check

    def told_tokens(self) -> Check:
        """Clients and finance read the same figures."""
        check = Check("tokens on the row are those that the complete answer told")
        for attempt in self._attempts:
            row = self._by_id.get(attempt.original_id or attempt.request_id)
            if attempt.is_complete and row:
                told, charged = attempt.usage, (row.prompt, row.completion)
                check.hold(
                    told == charged,
                    f"{row.request_id}: told {told}, charged {charged}",
                )
        return check

    def keys_charge_once(self) -> Check:
        """However often it came, over whichever gateway."""
        check = Check("an idempotency key has at most one completed row")
        for key, attempts in by_key(self._attempts).items():
            rows = [row for attempt in attempts if (row := self._by_mark.get(attempt.mark))]
            completed = [row for row in rows if row.outcome == "completed"]
            check.hold(len(completed) <= 1, f"{key}: {completed}")
        return check

    def replays(self) -> Check:
        """A repetition is the first answer, byte for byte."""
        check = Check("a replayed answer equals the first one, has no row of its own, and the first one has one")
        whole = {one.request_id: one for one in self._attempts if one.is_complete and not one.original_id}
        for attempt in self._attempts:
            if attempt.original_id and attempt.is_complete:
                first = whole.get(attempt.original_id)
                is_right = (
                    (first is None or _without_comments(first.raw) == _without_comments(attempt.raw))
                    and attempt.mark not in self._by_mark
                    and attempt.original_id in self._by_id
                )
                check.hold(is_right, f"{attempt.request_id} of {attempt.original_id}")
        return check

    def answers_well_formed(self) -> Check:
        """Nobody takes half an answer for a whole one."""
        check = Check("a stream that ended is complete and well-formed, or ends with an error event")
        for attempt in self._attempts:
            if attempt.status == 200 and attempt.stream and attempt.ended == "whole":
                problem = _problem(attempt)
                check.hold(not problem, f"{attempt.request_id}: {problem}")
        return check

    def counters(self) -> Check:
        """What limits are held against is what is billed."""
        check = Check("the store's requests, tokens and cost of each tenant's day and month are the sums of its rows")
        sums: dict[str, dict[str, int]] = defaultdict(lambda: dict.fromkeys("rioc", 0))
        for row in self._rows:
            day = row.admitted_at[:10].replace("-", "")
            for period in (f"d{day}", f"m{day[:6]}"):
                amounts = {Amount.REQUESTS: 1, Amount.INPUT: row.prompt, Amount.OUTPUT: row.completion}
                for name, amount in (amounts | {Amount.COST: row.cost_nano}).items():
                    sums[f"sl:spent:t:{row.tenant_id}:{period}"][name.value] += amount
        store = self._stack.store()
        for key, expected in sums.items():
            counted = {name: _numbers(store, key.encode()).get(name, 0) for name in "rioc"}
            check.hold(
                counted == expected,
                f"{key}: counted {counted}, rows {expected}",
            )
        return check

    def costs(self) -> Check:
        """Every row can be computed again from the price list."""
        check = Check("cost on the row is that of its tokens at the price that it names")
        columns = "id, input_per_million, cached_input_per_million, output_per_million"
        prices = {
            one[0]: [round(Decimal(str(price)) * 1000) for price in one[1:]]
            for one in self._stack.query(f"SELECT {columns} FROM tenants_price")
        }
        for row in self._rows:
            of_input, of_cached, of_output = prices.get(row.price_id or 0, (0, 0, 0))
            cost = (row.prompt - row.cached) * of_input + row.cached * of_cached + row.completion * of_output
            is_right = cost == row.cost_nano and (row.price_id is not None or not row.completion)
            check.hold(is_right, f"{row.request_id}: {row.cost_nano} at price {row.price_id}, not {cost}")
        return check

    def caps(self) -> Check:
        """Nobody gets more than his plan, whatever crashes."""
        check = Check("no tenant got more requests or tokens of a day or month than its plan allows")
        for tenant, plan in self._plans.items():
            rows = [row for row in self._rows if row.tenant == tenant]
            spent = {
                "requests_per_day": max(Counter(row.admitted_at[:10] for row in rows).values(), default=0),
                "tokens_per_month": sum(row.prompt + row.completion for row in rows),
            }
            for name in spent.keys() & plan.keys():
                check.hold(
                    spent[name] <= plan[name],
                    f"{tenant}: {spent[name]} {name}",
                )
        return check

    def journal_of_completed(self) -> Check:
        """What engines counted is what is billed."""
        check = Check("a completed row has the prompt, cached and answer tokens of its last attempt in the journal")
        for row in self._rows:
            if row.outcome == "completed":
                completed = [line.counts for line in self._lines[row.request_id] if line.how == "completed"]
                billed = (row.prompt, row.cached, row.completion)
                check.hold(completed[-1:] == [billed], f"{row.request_id}: billed {billed}, journal {completed}")
        return check

    def journal_of_others(self) -> Check:
        """Nobody pays for more than was made. An attempt that was killed with its engine has no line."""
        check = Check("other rows have no more answer tokens than was made, where the journal has all attempts")
        for row in self._rows:
            lines = self._lines[row.request_id]
            if row.outcome != "completed" and len(lines) > row.retries:
                most = max(line.completion for line in lines)
                check.hold(row.completion <= most, f"{row.request_id}: billed {row.completion}, made {most}")
        return check

    def journal_has_rows(self) -> Check:
        """No engine ever ran for nobody."""
        check = Check("every request in the engines' journals has a row")
        marks = {attempt.mark for attempt in self._attempts}
        for request_id in self._lines:
            if request_id.replace("-", "")[:12] in marks:
                check.hold(request_id in self._by_id, request_id)
        return check

    def batches_are_whole(self) -> Check:
        """Nothing is lost and nothing comes twice, whoever was killed."""
        check = Check("every batch completes, each of its requests has exactly one result, and that is an answer")
        for batch in self._batches:
            results = Counter(result.custom_id for result in batch.results if result.status == 200)
            is_whole = batch.told["status"] == "completed" and results == Counter(batch.sent)
            check.hold(is_whole, f"{batch.told['id']}: {batch.told['status']}, {len(batch.results)} results")
        return check

    def batches_are_charged(self) -> Check:
        """A tenant reads the same figures in its files and on its bill."""
        check = Check("every answer of a batch has one completed row with the tokens that it tells")
        for batch in self._batches:
            for result in batch.results:
                row = self._by_id.get(result.request_id)
                charged = (row.outcome, row.prompt, row.completion) if row else None
                told = ("completed", result.prompt, result.completion)
                check.hold(charged == told, f"{result.request_id}: told {told}, charged {charged}")
        return check


def reconciled(report: Mapping[str, Any]) -> Check:
    """The product's own proof, as ``manage.py reconcile --json`` tells it."""
    check = Check("manage.py reconcile finds nothing that differs")
    check.looked_at = report["tenants"]
    check.differences = [json.dumps(one) for one in report["differences"]]
    return check


def _numbers(store: Any, key: bytes) -> dict[str, int]:
    found: Mapping[bytes, bytes] = store.hgetall(key)
    return {name.decode(): int(float(value)) for name, value in found.items()}


def _without_comments(raw: bytes) -> bytes:
    return b"\n\n".join(event for event in raw.split(b"\n\n") if not event.startswith(b":"))


def _problem(attempt: Attempt) -> str:
    try:
        sse.strict(attempt.raw) if attempt.is_complete else sse.failed(attempt.raw)
    except (AssertionError, json.JSONDecodeError) as error:
        return repr(error)[:300]
    return ""
