"""How far limits are used, from what the store counts."""

from datetime import UTC, datetime

import pytest

from domain.limit_state import Counted, day_and_month, states
from domain.limits import Level, Limit

NOW = int(datetime(2026, 12, 31, 18, 30, tzinfo=UTC).timestamp() * 1000)
NEW_YEAR = int(datetime(2027, 1, 1, tzinfo=UTC).timestamp() * 1000)
LONG_AGO = NOW - 90 * 86_400_000
NOTHING = Counted({}, 0, {}, {})


def state_of(limit: Limit, counted: Counted, born_ms: int | None = LONG_AGO):
    return states([limit], {limit.level: counted}, NOW, born_ms)[0]


def test_what_nobody_has_used_is_all_there() -> None:
    seen = state_of(Limit(Level.TENANT, "requests_per_day", 100), NOTHING)
    assert (seen.used, seen.held, seen.remaining, seen.known, seen.in_force) == (0, 0, 100, True, True)


def test_a_day_and_a_month_end_at_midnight_in_utc() -> None:
    assert day_and_month(NOW) == ("d20261231", "m202612")
    assert state_of(Limit(Level.TENANT, "requests_per_day", 1), NOTHING).resets_at == NEW_YEAR
    assert state_of(Limit(Level.TENANT, "tokens_per_month", 1), NOTHING).resets_at == NEW_YEAR


def test_tokens_of_a_month_are_prompt_answer_and_corrections_together() -> None:
    month = {b"base": b"1", b"i": b"100", b"o": b"50", b"a": b"-30", b"hi": b"20", b"ho": b"5", b"r": b"9"}
    seen = state_of(Limit(Level.TENANT, "tokens_per_month", 1_000), Counted({}, 0, {}, month))
    assert (seen.used, seen.held, seen.remaining) == (120, 25, 855)


def test_what_was_overdrawn_leaves_nothing_and_never_less() -> None:
    month = {b"base": b"1", b"c": b"900", b"hc": b"300"}
    seen = state_of(Limit(Level.TENANT, "cost_per_month", 1_000), Counted({}, 0, {}, month))
    assert (seen.used, seen.held, seen.remaining) == (900, 300, 0)


@pytest.mark.parametrize(
    ("level", "ms_ago", "used", "remaining", "full_in_ms"),
    [(b"0", 0, 60, 0, 60_000), (b"0", 15_000, 45, 15, 45_000), (b"-20", 0, 80, 0, 80_000), (b"59.5", 9_000, 0, 60, 0)],
)
def test_a_minute_refills_evenly_and_remembers_its_debt(
    level: bytes, ms_ago: int, used: int, remaining: int, full_in_ms: int
) -> None:
    bucket = {b"r": level, b"at": str(NOW - ms_ago).encode()}
    seen = state_of(Limit(Level.TENANT, "requests_per_minute", 60), Counted(bucket, 0, {}, {}))
    assert (seen.used, seen.remaining, seen.resets_at) == (used, remaining, NOW + full_in_ms)


def test_requests_at_once_are_those_that_wait_or_run() -> None:
    seen = state_of(Limit(Level.KEY, "max_concurrent", 4), Counted({}, 3, {}, {}))
    assert (seen.used, seen.remaining, seen.resets_at) == (3, 1, None)


def test_of_tenant_and_key_the_one_that_leaves_less_is_in_force() -> None:
    limits = [
        Limit(Level.TENANT, "requests_per_day", 100),
        Limit(Level.TENANT, "max_concurrent", 2),
        Limit(Level.KEY, "requests_per_day", 10),
        Limit(Level.KEY, "max_concurrent", 2),
    ]
    day = {b"base": b"1", b"r": b"95"}
    counted = {Level.TENANT: Counted({}, 0, day, {}), Level.KEY: Counted({}, 0, {b"base": b"1", b"r": b"1"}, {})}
    assert [seen.in_force for seen in states(limits, counted, NOW, LONG_AGO)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("level", "spent", "born_ms", "known"),
    [
        (Level.TENANT, {}, LONG_AGO, True),
        (Level.TENANT, {}, NOW - 1, False),
        (Level.TENANT, {}, None, False),
        (Level.KEY, {}, LONG_AGO, False),
        (Level.TENANT, {b"since": b"1", b"r": b"1"}, LONG_AGO, False),
        (Level.KEY, {b"since": b"1", b"base": b"1"}, NOW - 1, True),
    ],
)
def test_a_store_that_began_anew_says_that_more_may_have_been_used(
    level: Level, spent: dict[bytes, bytes], born_ms: int | None, known: bool
) -> None:
    seen = state_of(Limit(level, "requests_per_day", 10), Counted({}, 0, spent, {}), born_ms)
    assert seen.known is known
