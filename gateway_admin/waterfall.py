"""The waterfall of one request: its spans as rows of bars."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

from django.utils.translation import gettext as _

from domain.trace.record import Record
from domain.trace.spans import Span, Value, tree
from gateway_admin.stage_names import part_names

WIDTH = 1000
"""Units across the picture, whatever its size on the screen."""

_LEAST_WIDTH = 2


class Bar(TypedDict):
    """One row.

    Attributes:
        depth: 0 for the request itself.
        x, width: of ``WIDTH``.
        offset_ms: since the request came; ``length_ms`` how long it took.
        links: ids of spans that it follows from.
    """

    span_id: str
    name: str
    group: str
    depth: int
    x: int
    width: int
    offset_ms: float
    length_ms: float
    attributes: list[tuple[str, Value]]
    error: str
    links: list[str]


class Piece(TypedDict):
    """A piece of the answer in the token timeline: where, how many tokens there were, and when in ms."""

    x: float
    y: float
    tokens: int
    at_ms: float


def bars(record: Record) -> list[Bar]:
    """The rows, in the order in which people read them."""
    spans, names = tree(record), part_names()
    depths = {span.span_id: 0 for span in spans[:1]}
    whole_us = max(1, spans[0].length_us)
    rows: list[Bar] = []
    for span in spans:
        depth = depths.setdefault(span.span_id, depths.get(span.parent_id, 0) + 1)
        rows.append(_bar(span, names, depth, record.received_us, whole_us))
    return rows


def _bar(span: Span, names: dict[str, str], depth: int, begin_us: int, whole_us: int) -> Bar:
    x = min(WIDTH - _LEAST_WIDTH, max(0, WIDTH * (span.start_us - begin_us) // whole_us))
    width = max(_LEAST_WIDTH, min(WIDTH - x, WIDTH * span.length_us // whole_us))
    number = span.attributes.get("retry_attempt", 0)
    return {
        "span_id": span.span_id,
        "name": _("Attempt %(number)s") % {"number": int(number) + 1}
        if span.name == "attempt"
        else names.get(span.name, span.name),
        "group": span.group,
        "depth": depth,
        "x": x,
        "width": width,
        "offset_ms": (span.start_us - begin_us) / 1000,
        "length_ms": span.length_us / 1000,
        "attributes": list(span.attributes.items()),
        "error": span.error,
        "links": list(span.links),
    }


def timeline(record: Record, height: int = 100) -> list[Piece]:
    """The pieces of the answer as they came to the gateway; empty for a whole answer."""
    whole_us, most = max(1, record.ended_us - record.received_us), max(1, record.completion_tokens)
    if not record.stream:
        return []
    return [
        {
            "x": round(WIDTH * (at - record.received_us) / whole_us, 1),
            "y": round(height * (1 - min(1.0, tokens / most)), 1),
            "tokens": tokens,
            "at_ms": (at - record.received_us) / 1000,
        }
        for at, tokens in record.timeline
    ]


def gaps_ms(record: Record) -> Sequence[float]:
    """Times between two pieces of the answer."""
    times = [at for at, _tokens in record.timeline]
    return [(after - before) / 1000 for before, after in pairwise(times)]
