"""Batches: the body that makes one, and what is told of them."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gateway.errors import ApiError
from gateway.schema.fields import Metadata, Shape, invalid
from gateway.schema.reading import read_body

MAX_WINDOW_HOURS = 168

BatchEndpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
Window = Annotated[str, Meta(pattern="^[1-9][0-9]{0,2}h$", examples=["24h"])]
FileId = Annotated[str, Meta(min_length=1, max_length=200, examples=["file-0123456789abcdef01234567"])]
Lifetime = Annotated[int, Meta(ge=3600, le=2_592_000)]


class ExpiresAfter(Shape):
    """For how long the results are kept, in seconds from when they are there."""

    anchor: Literal["created_at"]
    seconds: Lifetime


class NewBatch(Shape):
    """A file of requests to work off when engines have time."""

    input_file_id: FileId
    endpoint: BatchEndpoint
    completion_window: Window
    metadata: Metadata | None = None
    output_expires_after: ExpiresAfter | None = None

    @property
    def window_s(self) -> int:
        """The completion window in seconds."""
        return int(self.completion_window.removesuffix("h")) * 3600


class BatchErrorLine(msgspec.Struct):
    """What is wrong with the file; ``line`` is counted from 1, null where it is about all of it."""

    code: str
    message: str
    param: str | None
    line: int | None


class BatchErrors(msgspec.Struct):
    """Why the file was refused; nothing of it was run."""

    object: Literal["list"]
    data: list[BatchErrorLine]


class RequestCounts(msgspec.Struct):
    """How many requests the file has, and how many have an answer, or failed."""

    total: int
    completed: int
    failed: int


class CachedDetails(msgspec.Struct):
    """Of the prompt tokens."""

    cached_tokens: int


class ReasoningDetails(msgspec.Struct):
    """Of the answer tokens."""

    reasoning_tokens: int


class BatchUsage(msgspec.Struct):
    """Tokens of all answers so far."""

    input_tokens: int
    input_tokens_details: CachedDetails
    output_tokens: int
    output_tokens_details: ReasoningDetails
    total_tokens: int


class Batch(msgspec.Struct):
    """A batch. Times are in seconds of the epoch.

    ``waiting_for`` is why its requests are not taken at present (a reason, as errors have it); null while they are.
    ``trace_id`` is that of all its requests.
    """

    id: str
    object: Literal["batch"]
    endpoint: str
    model: str | None
    errors: BatchErrors | None
    input_file_id: str
    completion_window: str
    status: str
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: RequestCounts
    usage: BatchUsage
    metadata: dict[str, str] | None
    waiting_for: str | None
    trace_id: str


class BatchList(msgspec.Struct):
    """Some of your tenant's batches, the newest first; the next page comes ``after`` ``last_id``."""

    object: Literal["list"]
    data: list[Batch]
    first_id: str | None
    last_id: str | None
    has_more: bool


_NEW_BATCH = msgspec.json.Decoder(NewBatch)


def parse_new_batch(body: bytes) -> NewBatch:
    """Read and check a batch to make.

    Raises:
        ApiError: 400, with the field at fault in ``param``.
    """
    new = read_body(_NEW_BATCH, body)
    if new.window_s > MAX_WINDOW_HOURS * 3600:
        raise _window()
    if any("\0" in text for pair in (new.metadata or {}).items() for text in pair):
        raise invalid("metadata", "'metadata' must not contain the character U+0000.")
    return new


def _window() -> ApiError:
    return invalid("completion_window", f"'completion_window' must be hours from 1h to {MAX_WINDOW_HOURS}h.")
