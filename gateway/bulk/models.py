"""Whether a job's tenant may use the models that its file names."""

from datetime import UTC, datetime

from gateway.catalogue import endpoints
from gateway.permissions import PATHS
from gateway.runtime import runtime
from tenants.models import BulkJob
from tenants.snapshot import KeyRefused


def model_refusal(job: BulkJob, model: str) -> str | None:
    """Why requests of a job cannot ask a model, as a sentence; None if they can, or nobody knows yet."""
    here = runtime()
    name, shown = here.find_model(model), model[:100]
    if name is None:
        return f"The model '{shown}' does not exist or you do not have access to it. GET /v1/models lists yours."
    if job.key is not None:
        try:
            principal = here.snapshot.current.find_digest(bytes.fromhex(job.key.digest), datetime.now(UTC))
        except KeyRefused:
            return None  # each request is then told
        if principal.allowed_models is not None and name not in principal.allowed_models:
            return f"Your plan does not include the model '{shown}'. GET /v1/models lists those it does."
    served = endpoints(name)
    asked = next(endpoint for endpoint, path in PATHS.items() if path == job.endpoint)
    if served and asked not in served:
        return f"The model '{shown}' is not served at {job.endpoint}."
    return None
