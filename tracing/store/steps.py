"""Steps of engines, and launches of kernels beside them, as they are stored and found again."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from domain.trace.launches import WINDOW_US, Launches
from domain.trace.step import Step
from tracing.models import EngineSteps
from tracing.store.step_packing import unpack_steps

AT_ONCE = 1_000

SPAN_US = 60_000_000
"""No message holds more than a minute, and steps are hardly longer: rows beyond have nothing of a window."""


@dataclass(frozen=True, slots=True)
class StepsMessage:
    """What a worker sends at once.

    Attributes:
        worker_id: who made the steps.
        from_us: when the first of what is in it ended; ``to_us`` when the last did.
        packed: by :func:`tracing.store.step_packing.pack_steps`.
    """

    worker_id: str
    from_us: int
    to_us: int
    packed: bytes


def store_steps(messages: Mapping[str, StepsMessage]) -> None:
    """Store messages, each under a name of its own; one that is stored already is passed over.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    rows = [_row(name, message) for name, message in messages.items()]
    EngineSteps.objects.bulk_create(rows, ignore_conflicts=True)


def find_steps(worker_id: str, begin_us: int, end_us: int, limit: int) -> list[Step]:
    """Steps of a worker that fell into a window, whole or in part, in their order; the first ``limit`` of them.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    found: list[Step] = []
    for steps, _ in _read(worker_id, begin_us, end_us):
        found += [step for step in steps if step.ended_us > begin_us and step.began_us < end_us]
        if len(found) >= limit:
            break
    return found[:limit]


def find_launches(worker_id: str, begin_us: int, end_us: int, limit: int) -> list[Launches]:
    """Launches whose window of ``WINDOW_US`` touches the given one, likewise.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    found: list[Launches] = []
    for _, launches in _read(worker_id, begin_us, end_us):
        found += [one for one in launches if one.from_us + WINDOW_US > begin_us and one.from_us < end_us]
        if len(found) >= limit:
            break
    return found[:limit]


def prune_steps(before_us: int) -> int:
    """Delete what ended before ``before_us``; returns how many rows.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    deleted = 0
    while True:
        # Rows come in the order of time, so that the oldest ones need no index of their own.
        first = EngineSteps.objects.order_by("id").values_list("id", "to_us")[:AT_ONCE]
        ids = [row_id for row_id, to_us in first if to_us < before_us]
        deleted += EngineSteps.objects.filter(id__in=ids)._raw_delete(EngineSteps.objects.db) if ids else 0
        if len(ids) < AT_ONCE:
            return deleted


def _read(worker_id: str, begin_us: int, end_us: int) -> Iterator[tuple[list[Step], list[Launches]]]:
    rows = EngineSteps.objects.filter(
        worker_id=worker_id, from_us__gte=begin_us - SPAN_US, from_us__lt=end_us + SPAN_US, to_us__gte=begin_us
    )
    for packed in rows.order_by("from_us", "id").values_list("packed", flat=True).iterator():
        yield unpack_steps(bytes(packed))


def _row(name: str, message: StepsMessage) -> EngineSteps:
    second = 1_000_000
    return EngineSteps(
        name=name,
        worker_id=message.worker_id[:64],
        from_us=message.from_us // second * second,
        to_us=-(-message.to_us // second) * second,
        packed=message.packed,
    )
