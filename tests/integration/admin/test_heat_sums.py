"""The heat map is read from the sums: who has a line, which time is covered, what is counted."""

import pytest

from domain.trace.buckets import BUCKETS
from tests.integration.admin.stored_requests import HOUR_US, MINUTE_US, ago, asked, keep
from tracing.models import RequestSum
from tracing.store.heat import TOP, Heat, last, read_heat

pytestmark = pytest.mark.django_db

DURATION, TTFT = RequestSum.Measure.DURATION, RequestSum.Measure.TTFT
NOW_US = 1_900_000_000_000_000


def read(length_us: int = HOUR_US, measure: RequestSum.Measure = DURATION, model: str = "") -> Heat:
    return read_heat(last(length_us, ago()), measure, model)


def test_a_request_counts_in_the_bucket_of_its_time() -> None:
    keep(asked(ago(minutes=3), 100), asked(ago(minutes=3), 101), asked(ago(minutes=3), 101, status=503))

    assert read()["rows"] == [{"tenant": "acme", "cells": [[1, 0], [2, 1], *([[0, 0]] * (BUCKETS - 2))]}]


def test_the_busiest_tenants_have_a_line_and_the_rest_are_gathered() -> None:
    for number in range(TOP + 2):
        keep(*(asked(ago(minutes=3), tenant=f"t{number:02}") for _ in range(1 if number < 2 else 2)))

    heat = read()

    assert [row["tenant"] for row in heat["rows"]] == [f"t{number:02}" for number in range(2, TOP + 2)]
    assert heat["others"]["tenants"] == 2
    assert heat["others"]["cells"][0] == [2, 0]


def test_one_model_alone_is_shown_and_all_are_named() -> None:
    keep(asked(ago(minutes=3), model="m1"), asked(ago(minutes=3), model="m2", tenant="bolt"))

    heat = read(model="m2")

    assert [row["tenant"] for row in heat["rows"]] == ["bolt"]
    assert heat["models"] == ["m1", "m2"]


def test_the_first_token_is_measured_of_streams_alone() -> None:
    keep(asked(ago(minutes=3), 700), asked(ago(minutes=3), 900, first_ms=40))

    assert read(measure=TTFT)["rows"] == [{"tenant": "acme", "cells": [[1, 0], *([[0, 0]] * (BUCKETS - 1))]}]


@pytest.mark.parametrize("length_us", [15 * MINUTE_US, HOUR_US, 3 * HOUR_US, 24 * HOUR_US, 30 * 24 * HOUR_US])
def test_a_request_that_is_older_than_the_period_does_not_count(length_us: int) -> None:
    keep(asked(ago() - length_us - HOUR_US), asked(ago() - length_us // 2))

    assert read(length_us)["rows"][0]["cells"][0] == [1, 0]


def test_short_periods_are_made_of_minutes_and_long_ones_of_hours() -> None:
    assert last(3 * HOUR_US, NOW_US).period == RequestSum.Period.MINUTE
    assert last(24 * HOUR_US, NOW_US).period == RequestSum.Period.HOUR


@pytest.mark.parametrize("length_us", [15 * MINUTE_US, 24 * HOUR_US])
@pytest.mark.parametrize("at_us", [NOW_US - NOW_US % HOUR_US, NOW_US - NOW_US % HOUR_US + HOUR_US - 1])
def test_a_period_is_made_of_whole_sums_and_ends_with_the_one_that_is_under_way(length_us: int, at_us: int) -> None:
    span = last(length_us, at_us)

    assert span.until_us - span.since_us == length_us
    assert span.until_us - span.unit_us <= at_us < span.until_us
    assert span.since_us % span.unit_us == 0


def test_an_empty_store_has_an_empty_map() -> None:
    assert read() == {"rows": [], "others": {"tenants": 0, "cells": [[0, 0]] * BUCKETS}, "models": []}
