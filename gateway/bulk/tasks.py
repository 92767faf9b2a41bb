"""The Celery tasks of bulk jobs; see :mod:`workers.bulk` for their messages. Only bulk processes listen for them.

Acknowledged early, like tickets: what a process that died had begun is found by its lease, not by the broker.
"""

from typing import TypedDict

from celery import Task

from gateway.bulk import host
from workers.app import app
from workers.bulk import CHECK_TASK, FINISH_TASK, SLICE_TASK


class JobResult(TypedDict):
    """What Flower shows of a job that was checked or finished; ``status`` is empty if there was nothing to do."""

    job_id: str
    status: str


class SliceResult(TypedDict):
    """What Flower shows of a slice; ``is_done`` is None if another process had it, or it was done."""

    job_id: str
    number: int
    is_done: bool | None


@app.task(name=CHECK_TASK)
def check(job_id: str) -> JobResult:
    """Check the file of a job, and let its slices begin."""
    return JobResult(job_id=job_id, status=host.current().check(job_id))


@app.task(name=SLICE_TASK, bind=True, max_retries=None)
def run_slice(self: "Task[..., SliceResult]", job_id: str, number: int) -> SliceResult:
    """Work a slice off.

    One whose turn is over, or whose requests are refused at present, comes again as the same task, so that the chord
    still counts it once.
    """
    here = host.current()
    rest_s = here.rest_s(job_id, number)
    is_done = False if rest_s else here.run_slice(job_id, number)
    if is_done is False and not here.is_stopping:
        raise self.retry(countdown=rest_s)
    return SliceResult(job_id=job_id, number=number, is_done=is_done)


@app.task(name=FINISH_TASK)
def finish(results: list[SliceResult], job_id: str) -> JobResult:
    """Put the results of a job together: the body of the chord of its slices.

    Args:
        results: of the slices; what counts is what the database says of them.
        job_id: whose.
    """
    return JobResult(job_id=job_id, status=host.current().finish(job_id))
