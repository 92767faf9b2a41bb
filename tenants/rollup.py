"""Sums of usage by hour and day, kept with the rows that they sum up."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connection

from domain.outcome import Outcome
from tenants.models import UsageRollup

if TYPE_CHECKING:
    from tenants.usage import UsageRow

COUNTED_AS_FAILED = (Outcome.FAILED, Outcome.TIMEOUT, Outcome.EXPIRED, Outcome.GATEWAY_LOST)
"""Leaves out what clients did themselves."""

_GROUPS_PER_STATEMENT = 1_000
"""Times 13 columns stays under the bound of 32,766 variables that SQLite puts on one statement."""


class Group(NamedTuple):
    """What one sum is about. Everybody who writes sums takes their rows in this order, so that nobody blocks another
    who blocks him."""

    tenant_id: int
    period: str
    starts_at: datetime
    key_id: int
    model: str
    qos_class: str


class Sums(NamedTuple):
    """The columns that are summed up."""

    requests: int = 0
    completed: int = 0
    failed: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_nano: int = 0

    def plus(self, other: "Sums", times: int = 1) -> "Sums":
        """Add another, ``times`` times."""
        return Sums(*(mine + times * its for mine, its in zip(self, other, strict=True)))


def sums_of(rows: Iterable["UsageRow"]) -> dict[Group, Sums]:
    """Sum up ``rows`` by the hour and by the day in which they were admitted."""
    found: dict[Group, Sums] = defaultdict(Sums)
    for row in rows:
        one = Sums(
            1,
            int(row.outcome == Outcome.COMPLETED),
            int(row.outcome in COUNTED_AS_FAILED),
            row.prompt_tokens,
            row.cached_tokens,
            row.completion_tokens,
            row.cost_nano,
        )
        for period, starts_at in periods_of(row.admitted_at):
            group = Group(row.tenant_id, period, starts_at, row.key_id, row.model, row.qos_class)
            found[group] = found[group].plus(one)
    return dict(found)


def periods_of(moment: datetime) -> tuple[tuple[str, datetime], tuple[str, datetime]]:
    """The hour and the day in UTC that ``moment`` belongs to, each with its beginning."""
    hour = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return (UsageRollup.Period.HOUR, hour), (UsageRollup.Period.DAY, hour.replace(hour=0))


def add_sums(sums: Mapping[Group, Sums]) -> None:
    """Add ``sums`` to what is there. Call it in the transaction that writes the rows, once for each row.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    for part in _parts(sorted(sums.items())):
        _add(part)


def database_values(values: Iterable[Any]) -> list[Any]:
    """Make values of rows what the driver takes. Only moments are not so yet, and a field's own way takes five times as
    long."""
    adapt = connection.ops.adapt_datetimefield_value
    return [adapt(value) if isinstance(value, datetime) else value for value in values]


def _parts(sums: list[tuple[Group, Sums]]) -> Iterator[list[tuple[Group, Sums]]]:
    for start in range(0, len(sums), _GROUPS_PER_STATEMENT):
        yield sums[start : start + _GROUPS_PER_STATEMENT]


def _add(sums: list[tuple[Group, Sums]]) -> None:
    # Plain SQL, because bulk_create(update_conflicts=True) can replace values but not add to them.
    quote = connection.ops.quote_name
    by_attname = {field.attname: field for field in UsageRollup._meta.concrete_fields}
    fields = [by_attname[name] for name in (*Group._fields, *Sums._fields)]
    table = quote(UsageRollup._meta.db_table)
    names = [quote(str(field.column)) for field in fields]
    values = database_values(value for group, one in sums for value in (*group, *one))
    one_row = f"({', '.join(['%s'] * len(fields))})"
    added = ", ".join(f"{name} = {table}.{name} + excluded.{name}" for name in map(quote, Sums._fields))
    statement = (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([one_row] * len(sums))} "
        f"ON CONFLICT ({', '.join(names[: len(Group._fields)])}) DO UPDATE SET {added}"
    )
    with connection.cursor() as cursor:
        cursor.execute(statement, values)
