"""What a request costs: the price that applies, and the sum."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple


class PriceRow(NamedTuple):
    """One row of the price list; prices in billionths of the currency's unit for one token.

    ``model_version`` is the beginning of the versions it is for, "" for all; ``qos_class`` likewise "" for all.
    """

    price_id: int
    model_version: str
    qos_class: str
    valid_from: datetime
    input_nano: int
    cached_nano: int
    output_nano: int


def in_force(rows: Iterable[PriceRow], qos_class: str, at: datetime) -> tuple[PriceRow, ...]:
    """Reduce a model's rows to those that may apply to a request of this class at ``at``: one for each version.

    A row for the class goes before one for every class, then the latest goes before earlier ones. The longest
    version comes first, so the first row whose version begins a request's own is the one that applies.
    """
    best: dict[str, PriceRow] = {}
    for row in rows:
        if row.qos_class in ("", qos_class) and row.valid_from <= at:
            other = best.get(row.model_version)
            if other is None or (row.qos_class != "", row.valid_from) > (other.qos_class != "", other.valid_from):
                best[row.model_version] = row
    return tuple(sorted(best.values(), key=lambda row: (-len(row.model_version), row.model_version)))


def price_for(rows: Iterable[PriceRow], model_version: str) -> PriceRow | None:
    """Of the rows that :func:`in_force` returned, the one for ``model_version``; None if it has no price."""
    return next((row for row in rows if model_version.startswith(row.model_version)), None)


def cost_nano(row: PriceRow | None, prompt_tokens: int, cached_tokens: int, completion_tokens: int) -> int:
    """Billionths of the currency's unit for these tokens; the cached ones are part of the prompt."""
    if row is None:
        return 0
    fresh = prompt_tokens - cached_tokens
    return fresh * row.input_nano + cached_tokens * row.cached_nano + completion_tokens * row.output_nano


def most_nano(rows: Iterable[PriceRow], prompt_tokens: int, output_tokens: int) -> int:
    """The most that a request may cost, whatever version runs it; what a budget sets aside for it."""
    return max((cost_nano(row, prompt_tokens, 0, output_tokens) for row in rows), default=0)
