"""The one Celery task on the path of a request: a ticket says that work waits, and becomes a batch.

The message carries no item. What is claimed, and in which order, is decided in the ready set at the moment when the
engine has room, so a ticket that is lost or comes twice changes nothing.
"""

from typing import TypedDict

from celery import Task

from domain.qos import QosClass
from workers import host
from workers.app import app, own_queue_name, queue_name
from workers.runner import BATCH_TASK


class TicketResult(TypedDict):
    """What Flower shows of a ticket that was served."""

    batch_id: str
    items: int
    still_waiting: int
    passed_to: str


@app.task(name=BATCH_TASK, bind=True)
def batch(
    self: "Task[..., TicketResult]", model: str, qos_class: str, rung_by: str, passed_on: bool = False
) -> TicketResult:
    """Claim what waits for ``model``, run it and wait for it.

    Args:
        self: the task.
        model: the served model.
        qos_class: class of the item that rang; more urgent items are claimed first all the same.
        rung_by: who published the ticket.
        passed_on: a worker without room handed it to this one; it is not handed on again.
    """
    report = host.current().claim_and_run("ticket")
    passed_to = "" if passed_on else report.passed_to
    if passed_to:
        ring(model, QosClass(qos_class), host.current().worker_id, to_worker=passed_to)
    return TicketResult(
        batch_id=report.batch_id, items=report.items, still_waiting=report.still_waiting, passed_to=passed_to
    )


def ring(model: str, qos_class: QosClass, rung_by: str, to_worker: str = "") -> None:
    """Publish one ticket, to the class's queue or to one worker's own.

    Raises:
        kombu.exceptions.OperationalError: the broker does not answer.
    """
    batch.apply_async(
        kwargs={"model": model, "qos_class": qos_class.value, "rung_by": rung_by, "passed_on": bool(to_worker)},
        queue=own_queue_name(to_worker) if to_worker else queue_name(model, qos_class),
        ignore_result=True,
        retry=False,
    )
