"""Messages to the bulk processes (``gateway/bulk``): that a job's file waits to be checked, or a slice to be run.

Like tickets they are doorbells: who may work on what, and what is done, stands in the database. The slices of a job
are the header of a chord, whose body puts their results together. A chord whose messages are lost never fires; then
the bulk processes find what waits, and ring again (``gateway/bulk/sweep.py``).
"""

from celery import chord
from celery.canvas import Signature

from workers.app import app

QUEUE = "sluice.bulk"

CHECK_TASK = "sluice.bulk_check"
SLICE_TASK = "sluice.bulk_slice"
FINISH_TASK = "sluice.bulk_finish"


def ring_check(job_id: str) -> None:
    """Have a job's file checked.

    Raises:
        kombu.exceptions.OperationalError: the broker does not answer; so with all of these.
    """
    app.send_task(CHECK_TASK, kwargs={"job_id": job_id}, queue=QUEUE, ignore_result=True, retry=False)


def ring_job(job_id: str, slices: int) -> None:
    """Have all slices of a job run, and its results put together afterwards."""
    header = [_slice(job_id, number, keep_result=True) for number in range(slices)]
    chord(header, _finish(job_id)).apply_async(retry=False)


def ring_slice(job_id: str, number: int) -> None:
    """Have one slice run that nobody works on."""
    _slice(job_id, number, keep_result=False).apply_async(retry=False)


def ring_finish(job_id: str) -> None:
    """Have a job's results put together."""
    app.send_task(FINISH_TASK, kwargs={"results": [], "job_id": job_id}, queue=QUEUE, ignore_result=True, retry=False)


def _slice(job_id: str, number: int, *, keep_result: bool) -> "Signature[object]":
    kwargs = {"job_id": job_id, "number": number}
    return app.signature(SLICE_TASK, kwargs=kwargs, queue=QUEUE, ignore_result=not keep_result, immutable=True)


def _finish(job_id: str) -> "Signature[object]":
    return app.signature(FINISH_TASK, kwargs={"job_id": job_id}, queue=QUEUE, ignore_result=True)
