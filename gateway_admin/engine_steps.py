"""The steps that an engine made while a request ran on it, as a picture."""

from collections.abc import Sequence
from typing import TypedDict

from domain.trace.record import Record
from domain.trace.step import Step
from gateway_admin.waterfall import WIDTH
from tracing.store.steps import find_steps

SHOWN = 600
"""Steps of one picture; a longer run shows its first ones."""

HEIGHT = 60


class StepBar(TypedDict):
    """One step: ``x`` and ``width`` of ``WIDTH`` over the whole request, ``height`` of ``HEIGHT`` by sequences that
    ran."""

    x: float
    y: float
    width: float
    height: float
    title: str


class Steps(TypedDict):
    """What the page shows of all steps: their bars, and figures of them in words."""

    bars: list[StepBar]
    count: int
    longest_ms: float
    mean_ms: float
    most_running: int
    model_percent: float | None


def steps_of(record: Record) -> Steps | None:
    """The steps under a request, of every worker that ran it; None where none are kept.

    Raises:
        django.db.DatabaseError: the database does not answer.
    """
    found: list[Step] = []
    for run in record.runs:
        if run.scheduled_us and run.last_us:
            found += find_steps(run.worker_id, run.scheduled_us, run.last_us, SHOWN - len(found))
    return _summed(found, record) if found else None


def _summed(steps: Sequence[Step], record: Record) -> Steps:
    most = max(1, *(step.running for step in steps))
    lengths, model_us = [step.duration_us for step in steps], sum(step.model_us for step in steps)
    return {
        "bars": [_bar(step, record, most) for step in steps],
        "count": len(steps),
        "longest_ms": max(lengths) / 1000,
        "mean_ms": sum(lengths) / len(steps) / 1000,
        "most_running": most,
        "model_percent": 100 * model_us / max(1, sum(lengths)) if model_us else None,
    }


def _bar(step: Step, record: Record, most: int) -> StepBar:
    whole_us = max(1, record.ended_us - record.received_us)
    height = max(2.0, HEIGHT * step.running / most)
    begin_us = max(step.began_us, record.received_us)
    width = WIDTH * max(0, step.ended_us - begin_us) / whole_us
    return {
        "x": round(WIDTH * (begin_us - record.received_us) / whole_us, 2),
        "y": round(HEIGHT - height, 1),
        "width": round(max(0.4, 0.92 * width), 2),
        "height": round(height, 1),
        "title": f"{step.duration_us / 1000:.1f} ms, {step.running} + {step.waiting}, {step.prompt_tokens} / "
        f"{step.generated_tokens}",
    }
