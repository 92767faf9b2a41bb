"""The published schema of batches."""

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse

from gateway.errors import Refusal
from gateway.openapi import AUTH, IDEMPOTENCY_KEY, asked, described, errors, example, ref
from gateway.schema.batches import Batch, BatchList, NewBatch

_ERRORS = (*AUTH, Refusal.SCOPE_MISSING, Refusal.FILES_UNAVAILABLE)
_NEW = {
    "input_file_id": "file-0123456789abcdef01234567",
    "endpoint": "/v1/chat/completions",
    "completion_window": "24h",
    "metadata": {"night": "2026-12-01"},
}

batch_list_schema = described(
    operation_id="listBatches",
    tags=["batches"],
    parameters=[
        asked("after", "The id of a batch: begin with the one after it."),
        OpenApiParameter("limit", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}),
    ],
    responses={
        (200, "application/json"): OpenApiResponse(ref(BatchList), "Your batches."),
        **errors(Refusal.INVALID_BODY, Refusal.BATCH_NOT_FOUND, *_ERRORS),
    },
)

batch_create_schema = described(
    operation_id="createBatch",
    tags=["batches"],
    parameters=[IDEMPOTENCY_KEY],
    request={"application/json": ref(NewBatch)},
    examples=[example("Chats of a night", _NEW)],
    responses={
        (200, "application/json"): OpenApiResponse(ref(Batch), "The batch, whose file is being checked."),
        **errors(
            *(Refusal.INVALID_BODY, Refusal.FILE_NOT_FOUND, Refusal.BODY_TOO_LARGE),
            *(Refusal.IDEMPOTENCY_KEY_REUSED, Refusal.TOO_MANY_BATCHES),
            *_ERRORS,
        ),
    },
)

batch_schema = described(
    operation_id="retrieveBatch",
    tags=["batches"],
    responses={
        (200, "application/json"): OpenApiResponse(ref(Batch), "The batch."),
        **errors(Refusal.INVALID_BODY, Refusal.BATCH_NOT_FOUND, *_ERRORS),
    },
)

batch_cancel_schema = described(
    operation_id="cancelBatch",
    tags=["batches"],
    request=None,
    responses={
        (200, "application/json"): OpenApiResponse(ref(Batch), "The batch, which is being cancelled."),
        **errors(Refusal.BATCH_NOT_FOUND, Refusal.BATCH_ENDED, *_ERRORS),
    },
)
