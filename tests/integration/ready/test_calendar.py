"""Days and months as the scripts reckon them are those of the calendar in UTC."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis as SyncRedis

from workers.ready.scripts import shared

MS = timedelta(milliseconds=1)
ASK = """
local found = {}
for _, ms in ipairs(ARGV) do
  for _, one in ipairs({calendar(tonumber(ms))}) do
    found[#found + 1] = one.name
    found[#found + 1] = string.format('%.0f', one.begins)
    found[#found + 1] = string.format('%.0f', one.ends)
  end
end
return found
"""
EDGES = [
    datetime(year, month, 1, tzinfo=UTC) for year in (1970, 2000, 2024, 2026, 2100, 2399) for month in range(1, 13)
]


def ms_of(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // MS


def expected(moment: datetime) -> list[str]:
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    month = day.replace(day=1)
    bounds = ((day, day + timedelta(days=1)), (month, (month + timedelta(days=32)).replace(day=1)))
    names = f"d{moment:%Y%m%d}", f"m{moment:%Y%m}"
    return [
        part for name, pair in zip(names, bounds, strict=True) for part in (name, *(str(ms_of(one)) for one in pair))
    ]


def check(url: str, moments: list[datetime]) -> None:
    with SyncRedis.from_url(url) as store:
        found: Any = store.eval(shared() + ASK, 0, *(ms_of(moment) for moment in moments))
    assert [one.decode() for one in found] == [part for moment in moments for part in expected(moment)]


def test_every_month_begins_and_ends_where_it_does_in_the_calendar(valkey_url: str) -> None:
    check(valkey_url, [edge + step for edge in EDGES for step in (timedelta(0), MS, timedelta(days=27))])
    check(valkey_url, [edge - MS for edge in EDGES if edge.year > 1970])


@settings(max_examples=50, deadline=None)
@given(st.lists(st.datetimes(datetime(1970, 1, 1), datetime(2399, 12, 1), timezones=st.just(UTC)), max_size=50))
def test_any_moment_is_in_its_day_and_month(valkey_url: str, moments: list[datetime]) -> None:
    check(valkey_url, [moment.replace(microsecond=moment.microsecond // 1000 * 1000) for moment in moments])
