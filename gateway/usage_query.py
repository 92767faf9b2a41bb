"""What GET /v1/usage is asked for, read strictly from its query string."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import cast, get_args

from django.http import QueryDict

from gateway.errors import ApiError
from tenants.usage_report import Bucket, Group

_NAMES = ("start", "end", "bucket", "group_by")
_EARLIEST, _LATEST = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_LONGEST: Mapping[Bucket, timedelta] = {
    "hour": timedelta(days=31),
    "day": timedelta(days=400),
    "month": timedelta(days=3700),
}


@dataclass(frozen=True, slots=True)
class UsageQuery:
    """Whole buckets from ``start`` to before ``end`` (aware, UTC), told apart by ``groups``."""

    start: datetime
    end: datetime
    bucket: Bucket
    groups: tuple[Group, ...]


def read_query(query: QueryDict, now: datetime) -> UsageQuery:
    """Read the query; what is left out is this month by day.

    Raises:
        ApiError: 400, with the parameter at fault.
    """
    given = _given(query)
    bucket = _bucket(given.get("bucket", "day"))
    start = _floor(_moment("start", given["start"]) if "start" in given else _floor(now, "month"), bucket)
    end = _ceiling(_moment("end", given["end"]) if "end" in given else now, bucket)
    if end <= start:
        raise _wrong("end", "'end' must be after 'start'.", "invalid_value")
    if end - start > _LONGEST[bucket]:
        days = _LONGEST[bucket].days
        raise _wrong(
            "start", f"By {bucket}, at most {days} days at once. Move 'start' or 'end', or use a longer bucket."
        )
    return UsageQuery(start, end, bucket, _groups(given.get("group_by", "")))


def _given(query: QueryDict) -> dict[str, str]:
    for name, values in query.lists():
        if name not in _NAMES:
            raise _wrong(name[:100], f"Unknown parameter '{name[:100]}'. Use {', '.join(_NAMES)}.", "unknown_parameter")
        if len(values) > 1:
            raise _wrong(name, f"'{name}' is repeated. Send it once.", "duplicate_parameter")
    return {name: str(query[name]) for name in query}


def _bucket(text: str) -> Bucket:
    if text not in get_args(Bucket):
        raise _wrong("bucket", f"'bucket' must be hour, day or month, not '{text[:100]}'.")
    return cast(Bucket, text)


def _groups(text: str) -> tuple[Group, ...]:
    names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not set(names) <= set(get_args(Group)):
        raise _wrong(
            "group_by", f"'group_by' must be some of model, key and class, comma separated, not '{text[:100]}'."
        )
    return cast("tuple[Group, ...]", names)


def _moment(name: str, text: str) -> datetime:
    """Read seconds of the epoch or ISO 8601; without a zone it is UTC."""
    try:
        if text.isascii() and text.isdigit():
            moment = datetime.fromtimestamp(int(text), UTC)
        else:
            moment = datetime.fromisoformat(text)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        example = "2026-11-30, 2026-11-30T18:00Z or seconds of the epoch"
        raise _wrong(name, f"'{name}' must be a time such as {example}, not '{text[:100]}'.") from None
    if not _EARLIEST <= moment <= _LATEST:
        raise _wrong(name, f"'{name}' must lie between {_EARLIEST.year} and {_LATEST.year}.")
    return moment


def _floor(moment: datetime, bucket: Bucket) -> datetime:
    moment = moment.replace(minute=0, second=0, microsecond=0)
    if bucket == "hour":
        return moment
    return moment.replace(hour=0) if bucket == "day" else moment.replace(day=1, hour=0)


def _ceiling(moment: datetime, bucket: Bucket) -> datetime:
    begins = _floor(moment, bucket)
    if begins == moment:
        return begins
    if bucket == "month":
        return (begins + timedelta(days=32)).replace(day=1)
    return begins + (timedelta(hours=1) if bucket == "hour" else timedelta(days=1))


def _wrong(name: str, message: str, code: str = "invalid_value") -> ApiError:
    return ApiError(400, message, param=name, code=code)
