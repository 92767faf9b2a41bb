"""A batch larger than one engine's room goes out in slices, one for each worker that has room.

For P0 and P1 the slices are a Celery group: nobody waits for their results. For P2 they are the header of a chord,
whose body says what became of the whole batch; a chord costs tens of commands, so no answer ever waits for one.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

from celery import chord, group
from celery.canvas import Signature

from domain.qos import QosClass
from tracing import logs, metrics
from workers.app import app, own_queue_name, queue_name
from workers.runner import BATCH_TASK

log = logs.get(__name__)

SETTLE_TASK = "sluice.settle_slices"


class SlicesResult(TypedDict):
    """What Flower shows of a batch that went out in slices."""

    slices: int
    items: int
    still_waiting: int
    batch_ids: list[str]


def ring_workers(model: str, qos_class: QosClass, workers: Sequence[str], rung_by: str, rung_us: int = 0) -> None:
    """Publish one ticket to each worker's own queue; ``rung_us`` is when the first one was asked for.

    Raises:
        kombu.exceptions.OperationalError: the broker does not answer.
    """
    background = qos_class is QosClass.P2 and len(workers) > 1
    kwargs = {
        "model": model,
        "qos_class": qos_class.value,
        "rung_by": rung_by,
        "passed_on": True,
        "rung_us": rung_us,
    }
    slices = [_slice(kwargs, worker, keep_result=background) for worker in workers]
    if background:
        body = app.signature(
            SETTLE_TASK, kwargs={"model": model}, queue=queue_name(model, qos_class), ignore_result=True
        )
        chord(slices, body).apply_async(retry=False)
        metrics.slices.labels("chord").inc(len(slices))
    else:
        group(slices).apply_async(retry=False)
        metrics.slices.labels("group").inc(len(slices))


def _slice(kwargs: dict[str, Any], worker: str, *, keep_result: bool) -> "Signature[Any]":
    return app.signature(BATCH_TASK, kwargs=kwargs, queue=own_queue_name(worker), ignore_result=not keep_result)


@app.task(name=SETTLE_TASK)
def settle_slices(results: list[dict[str, Any]], model: str) -> SlicesResult:
    """The body of the chord: what became of a batch that went out in slices.

    Args:
        results: of each slice, see :class:`workers.tasks.TicketResult`.
        model: the served model.
    """
    total = SlicesResult(
        slices=len(results),
        items=sum(result["items"] for result in results),
        still_waiting=min((result["still_waiting"] for result in results), default=0),
        batch_ids=[result["batch_id"] for result in results],
    )
    log.info("slices_settled", model=model, **total)
    return total
