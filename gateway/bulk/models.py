"""For whom a job was made, and whether he may use the models that its file names."""

from datetime import UTC, datetime

from gateway.errors import ApiError
from gateway.permissions import PATHS, served_name
from gateway.runtime import runtime
from tenants.models import BulkJob
from tenants.snapshot import KeyRefused, Principal, Snapshot


def principal_of(job: BulkJob, snapshot: Snapshot) -> Principal:
    """Whom the key of a job stands for now.

    Raises:
        KeyRefused: for nobody any more.
    """
    if job.key is None:
        raise KeyRefused("unknown")
    return snapshot.find_digest(bytes.fromhex(job.key.digest), datetime.now(UTC))


def model_refusal(job: BulkJob, model: str) -> str | None:
    """Why requests of a job cannot ask a model, as a sentence; None if they can.

    Where the key stands for nobody any more, its plan is not looked at: each request is then told.
    """
    try:
        principal = principal_of(job, runtime().snapshot.current)
    except KeyRefused:
        principal = None
    endpoint = next(endpoint for endpoint, path in PATHS.items() if path == job.endpoint)
    try:
        served_name(principal, model, endpoint)
    except ApiError as error:
        return error.message
    return None
