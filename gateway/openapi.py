"""The published schema: request bodies come from the very structs that check them, so the two cannot part."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, OpenApiResponse, extend_schema

from domain.client_filter import MAX_BITS, MAX_HASHES, MIN_BITS
from domain.filter_size import PAPER
from gateway.errors import ApiError, Refusal, refuse
from gateway.idempotency import MAX_KEY_LENGTH
from gateway.schema import ChatRequest, CompletionsRequest, EmbeddingsRequest
from gateway.schema.account import LimitsReport, UsageReport
from gateway.schema.answers import (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    EmbeddingList,
    ErrorBody,
    LiveReport,
    ModelCard,
    ModelList,
    ReadyReport,
)
from gateway.schema.batches import Batch, BatchList, NewBatch
from gateway.schema.files import FileDeleted, FileList, FileObject
from gateway.schema.prompts import NewPrompt, NewVersion, Prompt, PromptDeleted, PromptList, VersionList

_COMPONENTS = (
    ChatRequest,
    CompletionsRequest,
    EmbeddingsRequest,
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    EmbeddingList,
    ModelList,
    ModelCard,
    LimitsReport,
    UsageReport,
    NewPrompt,
    NewVersion,
    Prompt,
    PromptList,
    VersionList,
    PromptDeleted,
    FileObject,
    FileList,
    FileDeleted,
    NewBatch,
    Batch,
    BatchList,
    ErrorBody,
    ReadyReport,
    LiveReport,
)
_REF = "#/components/schemas/{name}"
_MODEL = "smollm2-135m-instruct"
_EMBEDDING_MODEL = "all-minilm-l6-v2"

JsonSchema = dict[str, Any]
MethodT = TypeVar("MethodT", bound=Callable[..., object])


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[misc]  # the library has no types
    """How to send the key."""

    target_class = "gateway.authentication.BearerAuthentication"
    name = "bearerAuth"

    def get_security_definition(self, auto_schema: object) -> JsonSchema:
        """HTTP Bearer."""
        return {"type": "http", "scheme": "bearer", "description": "The tenant's API key."}


def add_components(result: JsonSchema, generator: object, request: object, public: bool) -> JsonSchema:
    """Put the structs' schemas beside what the views refer to (a post-processing hook)."""
    _, components = msgspec.json.schema_components(_COMPONENTS, ref_template=_REF)
    _say_prompt_replaces_messages(components["ChatRequest"])
    result.setdefault("components", {}).setdefault("schemas", {}).update(components)
    return result


def _say_prompt_replaces_messages(chat: JsonSchema) -> None:
    """A stored prompt has messages of its own, so either field will do; the struct sees the body after that."""
    chat["required"].remove("messages")
    chat["anyOf"] = [{"required": ["messages"]}, {"required": ["prompt"]}]


SCHEMA_SETTINGS: dict[str, Any] = {
    "OAS_VERSION": "3.1.1",
    "POSTPROCESSING_HOOKS": ["gateway.openapi.add_components"],
    "TAGS": [
        {"name": "inference", "description": "Ask a model."},
        {"name": "models", "description": "Which models there are."},
        {"name": "prompts", "description": "Keep prompts here, and name them in chats."},
        {"name": "batches", "description": "Files of requests that are worked off when engines have time."},
        {"name": "account", "description": "What your key allows, and what your tenant used."},
        {"name": "health", "description": "For probes and Prometheus; no key is needed."},
    ],
}


def ref(struct: type[msgspec.Struct]) -> JsonSchema:
    """Refer to a struct's schema."""
    return {"$ref": _REF.format(name=struct.__name__)}


def errors(*refusals: Refusal | ApiError) -> dict[tuple[int, str], OpenApiResponse]:
    """One response a status, with an example for each refusal that has it."""
    by_status: dict[int, list[OpenApiExample]] = {}
    for refusal in refusals:
        error = refusal if isinstance(refusal, ApiError) else refuse(refusal)
        shown = OpenApiExample(error.reason or error.code or "error", value=msgspec.json.decode(error.body()))
        by_status.setdefault(error.status, []).append(shown)
    return {
        (status, "application/json"): OpenApiResponse(ref(ErrorBody), _MEANING[status], examples)
        for status, examples in by_status.items()
    }


_MEANING = {
    400: "The request is malformed; `param` names the field.",
    401: "The key is missing, wrong, revoked or expired.",
    403: "The key, its tenant or its plan does not allow this.",
    404: "There is no such model, stored prompt or file.",
    408: "The body took too long to arrive.",
    409: "The idempotency key was used before, or a batch reads the file.",
    413: "The body is too large.",
    415: "The body is of another type than this endpoint takes.",
    422: "The idempotency key came with another body before.",
    429: "A limit is reached; `retry-after` says when to come back.",
    502: "The engine failed.",
    503: "Nothing can serve the request now; `retry-after` says when to come back.",
    504: "The request ran longer than is allowed, or wanted a kept answer only and there is none.",
}
AUTH = (
    Refusal.KEY_MISSING,
    Refusal.KEY_UNKNOWN,
    Refusal.KEY_REVOKED,
    Refusal.KEY_EXPIRED,
    Refusal.TENANT_DISABLED,
    Refusal.ADDRESS_NOT_ALLOWED,
)
_INFERENCE = (
    Refusal.INVALID_BODY,
    *AUTH,
    Refusal.SCOPE_MISSING,
    Refusal.MODEL_NOT_FOUND,
    Refusal.MODEL_NOT_ALLOWED,
    Refusal.IDEMPOTENCY_IN_PROGRESS,
    Refusal.IDEMPOTENCY_KEY_USED,
    Refusal.BODY_TOO_LARGE,
    Refusal.IDEMPOTENCY_KEY_REUSED,
    Refusal.REQUESTS_PER_MINUTE,
    Refusal.TOKENS_PER_MINUTE,
    Refusal.CONCURRENCY,
    Refusal.QUEUE_FULL,
    Refusal.TTL,
    Refusal.ENGINE_FAILED,
    Refusal.NO_BACKEND,
    Refusal.TIMEOUT,
    Refusal.NOT_KEPT,
)


IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="Names the request, so that it can be sent again without being run or charged twice.",
)
_CACHE_CONTROL = OpenApiParameter(
    "Cache-Control",
    {"type": "string"},
    OpenApiParameter.HEADER,
    description="What may be done with kept answers: `no-cache`, `no-store`, `max-age=N`, `only-if-cached`.",
)
_SLUICE_CACHE = OpenApiParameter(
    "x-sluice-cache",
    {"type": "string", "enum": ["on", "off", "refresh"]},
    OpenApiParameter.HEADER,
    description="`on`: a kept answer also where a repetition would be answered otherwise. `refresh`: compute it anew "
    "and keep that. `off`: compute it and keep nothing.",
)
_HEADERS = [IDEMPOTENCY_KEY, _CACHE_CONTROL, _SLUICE_CACHE]


def example(name: str, value: Mapping[str, object]) -> OpenApiExample:
    """A body that the endpoint takes."""
    return OpenApiExample(name, value=dict(value), request_only=True, media_type="application/json")


def described(**schema: object) -> Callable[[MethodT], MethodT]:
    """``extend_schema`` with a type: it returns the method that it was given."""
    return cast(Callable[[MethodT], MethodT], extend_schema(**schema))


chat_schema = described(
    operation_id="createChatCompletion",
    tags=["inference"],
    parameters=_HEADERS,
    request={"application/json": ref(ChatRequest)},
    examples=[
        example(
            "Question",
            {"model": _MODEL, "messages": [{"role": "user", "content": "What is the capital of France?"}]},
        ),
        example(
            "Stream with token counts",
            {
                "model": _MODEL,
                "messages": [{"role": "user", "content": "Count to five."}],
                "stream": True,
                "stream_options": {"include_usage": True},
                "service_tier": "priority",
            },
        ),
    ],
    responses={
        (200, "application/json"): OpenApiResponse(ref(ChatCompletion), "The whole answer."),
        (200, "text/event-stream"): OpenApiResponse(ref(ChatCompletionChunk), "The answer as it comes."),
        **errors(*_INFERENCE, Refusal.PROMPT_NOT_FOUND, Refusal.UNKNOWN_PROMPTS, Refusal.PROMPTS_UNAVAILABLE),
    },
)

completions_schema = described(
    operation_id="createCompletion",
    tags=["inference"],
    parameters=_HEADERS,
    request={"application/json": ref(CompletionsRequest)},
    examples=[example("Continue a text", {"model": _MODEL, "prompt": "Once upon a time", "max_tokens": 16})],
    responses={
        (200, "application/json"): OpenApiResponse(ref(Completion), "The whole answer."),
        (200, "text/event-stream"): OpenApiResponse(ref(Completion), "The answer as it comes."),
        **errors(*_INFERENCE),
    },
)

embeddings_schema = described(
    operation_id="createEmbedding",
    tags=["inference"],
    parameters=_HEADERS,
    request={"application/json": ref(EmbeddingsRequest)},
    examples=[
        example("One text", {"model": _EMBEDDING_MODEL, "input": "A lock lets a boat climb a hill."}),
        example(
            "Several texts, short vectors",
            {"model": _EMBEDDING_MODEL, "input": ["a boat", "a ship"], "dimensions": 64, "encoding_format": "base64"},
        ),
    ],
    responses={
        (200, "application/json"): OpenApiResponse(ref(EmbeddingList), "One vector for each input."),
        **errors(*_INFERENCE),
    },
)

models_schema = described(
    operation_id="listModels",
    tags=["models"],
    responses={(200, "application/json"): OpenApiResponse(ref(ModelList), "The models."), **errors(*AUTH)},
)

model_schema = described(
    operation_id="retrieveModel",
    tags=["models"],
    responses={
        (200, "application/json"): OpenApiResponse(ref(ModelCard), "The model."),
        **errors(*AUTH, Refusal.MODEL_NOT_FOUND),
    },
)

limits_schema = described(
    operation_id="retrieveLimits",
    tags=["account"],
    responses={
        (200, "application/json"): OpenApiResponse(ref(LimitsReport), "The limits, and how far they are used."),
        **errors(*AUTH, Refusal.SCOPE_MISSING, Refusal.STORE_UNAVAILABLE),
    },
)


def asked(name: str, description: str, **schema: object) -> OpenApiParameter:
    """A parameter of the query; a text unless ``schema`` says otherwise."""
    return OpenApiParameter(name, {"type": "string", **schema}, OpenApiParameter.QUERY, description=description)


usage_schema = described(
    operation_id="retrieveUsage",
    tags=["account"],
    parameters=[
        asked("start", "ISO 8601 (UTC if no zone is given) or seconds of the epoch; left out: the month's beginning."),
        asked("end", "The first moment that does not count; left out: now. Buckets are always whole."),
        asked("bucket", "How long each bucket is.", enum=["hour", "day", "month"], default="day"),
        asked("group_by", "Some of `model`, `key` and `class`, comma separated."),
    ],
    responses={
        (200, "application/json"): OpenApiResponse(ref(UsageReport), "What your tenant used, and its budget."),
        **errors(Refusal.INVALID_BODY, *AUTH, Refusal.SCOPE_MISSING, Refusal.USAGE_UNAVAILABLE),
    },
)

filter_schema = described(
    operation_id="retrievePromptFilter",
    tags=["prompts"],
    parameters=[
        OpenApiParameter(
            "bits",
            {"type": "integer", "minimum": MIN_BITS, "maximum": MAX_BITS, "default": PAPER.bits},
            OpenApiParameter.QUERY,
            description="Size of the filter, a power of two; 8388608 are 1 MB.",
        ),
        OpenApiParameter(
            "hashes",
            {"type": "integer", "minimum": 1, "maximum": MAX_HASHES, "default": PAPER.hashes},
            OpenApiParameter.QUERY,
            description="Bits that each prompt sets.",
        ),
    ],
    responses={
        (200, "application/octet-stream"): OpenApiResponse(
            {"type": "string", "format": "binary"}, "The filter, see docs/reference/filter-format.md."
        ),
        (304, "application/octet-stream"): OpenApiResponse(
            None, "You have it: `x-sluice-filter-complete-ms` says from when on it says nothing."
        ),
        **errors(
            *(Refusal.INVALID_BODY, *AUTH, Refusal.SCOPE_MISSING),
            *(Refusal.STORE_UNAVAILABLE, Refusal.USAGE_UNAVAILABLE),
        ),
    },
)

livez_schema = described(
    operation_id="livez",
    tags=["health"],
    responses={(200, "application/json"): OpenApiResponse(ref(LiveReport), "The process lives.")},
)

readyz_schema = described(
    operation_id="readyz",
    tags=["health"],
    responses={
        (200, "application/json"): OpenApiResponse(ref(ReadyReport), "Ready."),
        (503, "application/json"): OpenApiResponse(ref(ReadyReport), "Not ready, and why."),
    },
)

metrics_schema = described(
    operation_id="metrics",
    tags=["health"],
    responses={(200, "text/plain"): OpenApiResponse({"type": "string"}, "Figures in Prometheus' text format.")},
)
