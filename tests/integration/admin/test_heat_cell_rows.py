"""What is behind a cell of the heat map: its requests and no others, by instance, from few rows."""

from typing import Any

import pytest

from tests.integration.admin.stored_requests import HOUR_US, MINUTE_US, ago, asked, keep
from tracing.models import RequestSum, StoredRequest
from tracing.store import heat_cell
from tracing.store.heat import last
from tracing.store.heat_cell import Behind, Cell, read_cell

pytestmark = pytest.mark.django_db

DURATION, TTFT = RequestSum.Measure.DURATION, RequestSum.Measure.TTFT


def read(measure: RequestSum.Measure = DURATION, length_us: int = HOUR_US, **fields: Any) -> Behind:
    return read_cell(Cell(last(length_us, ago()), measure, **fields))


def times_ms(behind: Behind) -> list[float]:
    return sorted(row.duration_us / 1000 for row in behind.newest)


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [((0, 0), [100]), ((1, 1), [101, 500]), ((2, 5), [501, 20_000]), ((5, 5), [20_000]), ((0, 1), [100, 101, 500])],
)
def test_a_bound_belongs_to_the_bucket_below_it(buckets: tuple[int, int], expected: list[float]) -> None:
    keep(*(asked(ago(minutes=3), ms) for ms in (100, 101, 500, 501, 20_000)))

    behind = read(buckets=buckets)

    assert times_ms(behind) == expected
    assert behind.counted.requests == len(expected)


def test_one_tenant_all_of_them_or_all_but_some() -> None:
    keep(*(asked(ago(minutes=3), tenant=tenant) for tenant in ("acme", "bolt", "")))

    assert [row.tenant for row in read(tenant="acme").newest] == ["acme"]
    assert [row.tenant for row in read(tenant="").newest] == [""]
    assert {row.tenant for row in read(without=("acme",)).newest} == {"bolt", ""}
    assert len(read().newest) == 3


def test_one_model_alone() -> None:
    keep(asked(ago(minutes=3), model="m1"), asked(ago(minutes=3), model="m2"))

    assert [row.model for row in read(model="m2").newest] == ["m2"]


def test_requests_without_a_first_token_are_behind_no_cell_of_first_tokens() -> None:
    keep(asked(ago(minutes=3), 700), asked(ago(minutes=3), 900, first_ms=40))

    assert times_ms(read(TTFT)) == [900]


def test_instances_are_told_apart_with_errors_and_percentiles() -> None:
    keep(*(asked(ago(minutes=3), ms, worker="worker-0") for ms in (10, 20, 30)))
    keep(asked(ago(minutes=3), 60, worker="worker-1", status=502), asked(ago(minutes=3), 5, worker="", status=429))

    found = read(buckets=(0, 0)).instances

    assert [one[:3] for one in found] == [("worker-0", 3, 0), ("", 1, 0), ("worker-1", 1, 1)]
    assert (found[0].p50_ms, found[0].p95_ms) == (20, 30)


def test_the_time_is_narrowed_to_when_such_requests_began() -> None:
    began_us = ago(minutes=30)
    keep(asked(began_us, 700), *(asked(ago(minutes=3), 10) for _ in range(3)))

    counted = read(buckets=(2, 5)).counted

    assert counted.since_us <= began_us < counted.until_us == counted.since_us + MINUTE_US


def test_rare_requests_of_a_busy_time_are_found_without_looking_at_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat_cell, "SCANNED", 5)
    keep(asked(ago(minutes=30), 700), *(asked(ago(minutes=3), 10) for _ in range(20)))

    assert times_ms(read(buckets=(2, 5))) == [700]


def test_no_more_rows_are_looked_at_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat_cell, "SCANNED", 5)
    moment_us = ago(minutes=3)
    keep(*(asked(moment_us + number * 1000, 700 if number == 0 else 10) for number in range(20)))

    behind = read(buckets=(2, 5))

    assert (behind.counted.requests, behind.looked_at) == (1, 0)


def test_the_latest_stand_for_the_others_and_the_newest_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat_cell, "LATEST", 4)
    monkeypatch.setattr(heat_cell, "NEWEST", 2)
    moment_us = ago(minutes=3)
    keep(*(asked(moment_us + number * 1000) for number in range(6)))

    behind = read()

    assert (behind.counted.requests, behind.looked_at, behind.instances[0].requests) == (6, 4, 4)
    assert [row.started_us for row in behind.newest] == [moment_us + 5000, moment_us + 4000]


def test_what_is_kept_no_more_is_still_counted() -> None:
    keep(asked(ago(minutes=3)))
    StoredRequest.objects.all().delete()

    behind = read()

    assert (behind.counted.requests, behind.looked_at, behind.newest) == (1, 0, [])


def test_nothing_is_behind_an_empty_cell() -> None:
    assert read().counted.requests == 0
