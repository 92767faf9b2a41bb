"""The heat map: requests and errors of each tenant by how long they took, read from the sums alone."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypedDict

from django.db.models import QuerySet, Sum

from domain.trace.buckets import BUCKETS, HOUR_US, MINUTE_US
from tracing.models import RequestSum

TOP = 20
"""Tenants with a line of their own."""

Cells = list[list[int]]
"""For each bucket how many requests fell into it, and how many of these failed."""


class Span(NamedTuple):
    """A stretch of time, from ``since_us`` on and before ``until_us``, and the sums that cover it."""

    period: RequestSum.Period
    since_us: int
    until_us: int

    @property
    def unit_us(self) -> int:
        """How much time one sum covers."""
        return MINUTE_US if self.period == RequestSum.Period.MINUTE else HOUR_US


class HeatRow(TypedDict):
    """One tenant; "" is a caller who told no valid key."""

    tenant: str
    cells: Cells


class OthersRow(TypedDict):
    """All tenants that have no line of their own: so many of them."""

    tenants: int
    cells: Cells


class Heat(TypedDict):
    """All of it: tenants with the most requests first, and every model that was asked in that time."""

    rows: list[HeatRow]
    others: OthersRow
    models: list[str]


def last(length_us: int, at_us: int) -> Span:
    """So much time to the end of the minute in which ``at_us`` is, or of the hour if it is more than three hours."""
    period = RequestSum.Period.MINUTE if length_us <= 3 * HOUR_US else RequestSum.Period.HOUR
    unit_us = MINUTE_US if period == RequestSum.Period.MINUTE else HOUR_US
    until_us = at_us - at_us % unit_us + unit_us
    return Span(period, until_us - length_us, until_us)


def read_heat(span: Span, measure: RequestSum.Measure, model: str = "") -> Heat:
    """Read the map of one model, or of all.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    tenants: dict[str, Cells] = {}
    models: Counter[str] = Counter()
    found = sums_of(span, measure).values("tenant", "model", "bucket")
    columns = ("tenant", "model", "bucket", "requests__sum", "errors__sum")
    for tenant, asked, bucket, requests, errors in found.annotate(Sum("requests"), Sum("errors")).values_list(*columns):
        models[asked] += requests
        if model in ("", asked):
            _add(tenants.setdefault(tenant, _no_cells()), bucket, requests, errors)
    ranked = sorted(tenants.items(), key=lambda pair: (-count(pair[1]), pair[0]))
    return {
        "rows": [{"tenant": tenant, "cells": cells} for tenant, cells in ranked[:TOP]],
        "others": {"tenants": len(ranked[TOP:]), "cells": _gathered([cells for _tenant, cells in ranked[TOP:]])},
        "models": sorted(name for name in models if name),
    }


def sums_of(span: Span, measure: RequestSum.Measure) -> "QuerySet[RequestSum]":
    """The sums of a stretch of time."""
    return RequestSum.objects.filter(
        period=span.period, starts_us__gte=span.since_us, starts_us__lt=span.until_us, measure=measure
    )


def count(cells: Cells) -> int:
    """The requests of some cells."""
    return sum(requests for requests, _errors in cells)


def _no_cells() -> Cells:
    return [[0, 0] for _bucket in range(BUCKETS)]


def _add(cells: Cells, bucket: int, requests: int, errors: int) -> None:
    cells[bucket][0] += requests
    cells[bucket][1] += errors


def _gathered(rows: Sequence[Cells]) -> Cells:
    total = _no_cells()
    for cells in rows:
        for bucket, (requests, errors) in enumerate(cells):
            _add(total, bucket, requests, errors)
    return total
