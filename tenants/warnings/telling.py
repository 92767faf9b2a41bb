"""Tells warnings, and again those that nobody heard."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db.models import F, Q

from domain.config import Config
from tenants.models import BudgetWarning
from tenants.warnings.channels import Channel, NotTold, channels_of

MOST_ATTEMPTS = 8
_AT_ONCE = 8
_BATCH = 100


class Told(NamedTuple):
    """One attempt: by which way, and why not; "" if it was heard."""

    channel: str
    error: str


def due_after(attempts: int) -> timedelta:
    """How long after a warning was made its next attempt comes, by those before: 0, 1, 3, 7, 15 ... minutes."""
    return timedelta(minutes=2**attempts - 1)


def tell_due(now: datetime, config: Config) -> list[Told]:
    """Tell what is due, by the ways that have not been heard; return what was attempted.

    Any number of processes may call it: each attempt is one's alone. One that dies meanwhile leaves the rest to the
    next attempt, so a warning may be told twice, and never not at all.

    Raises:
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    attempts: list[Told] = []
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while found := [warning for warning in _due(now) if _claim(warning)]:
            ways = [[way for way in channels_of(one, config) if one.told.get(way.name) != ""] for one in found]
            results = iter(list(pool.map(_tell, (way for of_one in ways for way in of_one))))
            for warning, of_one in zip(found, ways, strict=True):
                told = [next(results) for _ in of_one]
                _record(warning, told)
                attempts += told
    return attempts


def _due(now: datetime) -> Iterable[BudgetWarning]:
    is_due = Q(
        *(Q(attempts=number, at__lte=now - due_after(number)) for number in range(MOST_ATTEMPTS)), _connector=Q.OR
    )
    return BudgetWarning.objects.filter(is_due, done=False).select_related("tenant").order_by("pk")[:_BATCH]


def _claim(warning: BudgetWarning) -> bool:
    mine = BudgetWarning.objects.filter(pk=warning.pk, attempts=warning.attempts, done=False)
    warning.attempts += 1
    return mine.update(attempts=F("attempts") + 1) == 1


def _tell(way: Channel) -> Told:
    try:
        way.tell()
    except NotTold as error:
        return Told(way.name, str(error))
    return Told(way.name, "")


def _record(warning: BudgetWarning, told: list[Told]) -> None:
    warning.told |= {one.channel: one.error for one in told}
    warning.done = warning.attempts >= MOST_ATTEMPTS or not any(one.error for one in told)
    warning.save(update_fields=["told", "done"])
