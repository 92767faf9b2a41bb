"""Endings: what they told when requests ended, by model and day, against the rows of what finished then."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from redis import Redis

from tenants.one_moment import one_moment
from tenants.reconcile import Billed
from workers.reconcile.difference import Check
from workers.reconcile.facts import Facts
from workers.reconcile.seen import Seen
from workers.reconcile.store_books import read_books


def start_of(day: str) -> datetime:
    """The first moment of a day such as ``20261130``."""
    return datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC)


def look_at_endings(store: Redis, days: Sequence[str]) -> Iterator[Seen]:
    """Compare these days as of one moment."""
    books = read_books(store, {}, days)
    with one_moment():
        facts = Facts(books)
        for day, fields in books.made.items():
            if fields:
                yield from _compare(day, fields, facts)


def _compare(day: str, fields: Mapping[str, int], facts: Facts) -> Iterator[Seen]:
    since_ms, key = fields["since"], f"sl:made:{day}"
    begun = datetime.fromtimestamp(since_ms // 1000, UTC).replace(microsecond=since_ms % 1000 * 1000)
    right = facts.billed(max(start_of(day), begun), start_of(day) + timedelta(days=1))
    told = {name.rpartition("|")[0] for name in fields if name.rpartition("|")[2] in Billed._fields}
    for model in sorted(right.keys() | told):
        for name, expected in right.get(model, Billed())._asdict().items():
            found = fields.get(f"{model}|{name}", 0)
            if found != expected:
                yield Seen(Check.BILLED, model, day, key, f"{model}|{name}", expected, found, str(since_ms))
