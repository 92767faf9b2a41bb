"""The one Celery task on the path of a request: a ticket says that work waits, and becomes a batch.

The message carries no item. What is claimed, and in which order, is decided in the ready set at the moment when the
engine has room, so a ticket that is lost or comes twice changes nothing.
"""

import time
from typing import TypedDict

from celery import Task

from domain.qos import QosClass
from tracing.clock import now_us
from workers import host, slices
from workers.app import app, queue_name
from workers.runner import BATCH_TASK
from workers.running import Claiming


class TicketResult(TypedDict):
    """What Flower shows of a ticket that was served."""

    batch_id: str
    items: int
    still_waiting: int
    passed_to: list[str]


@app.task(name=BATCH_TASK, bind=True)
def batch(
    self: "Task[..., TicketResult]",
    model: str,
    qos_class: str,
    rung_by: str,
    passed_on: bool = False,
    rung_us: int = 0,
) -> TicketResult:
    """Claim what waits for ``model``, run it and wait for it.

    Args:
        self: the task.
        model: the served model.
        qos_class: class of the item that rang; more urgent items are claimed first all the same.
        rung_by: who published the ticket.
        passed_on: a worker without room handed it to this one; it is not handed on again.
        rung_us: when it was asked for, microseconds since 1970; 0 if that was not told.
    """
    here = host.current()
    wait_s = here.delay_s("transit")
    if wait_s:
        time.sleep(wait_s)
    report = here.claim_and_run(Claiming("ticket", rung_us, now_us()))
    others = () if passed_on else report.passed_to
    if others:
        slices.ring_workers(model, QosClass(qos_class), others, here.worker_id, rung_us)
    return TicketResult(
        batch_id=report.batch_id, items=report.items, still_waiting=report.still_waiting, passed_to=list(others)
    )


def ring(model: str, qos_class: QosClass, rung_by: str, rung_us: int = 0) -> None:
    """Publish one ticket to the class's queue; ``rung_us`` is when it was asked for.

    Raises:
        kombu.exceptions.OperationalError: the broker does not answer.
    """
    batch.apply_async(
        kwargs={"model": model, "qos_class": qos_class.value, "rung_by": rung_by, "rung_us": rung_us},
        queue=queue_name(model, qos_class),
        ignore_result=True,
        retry=False,
    )
