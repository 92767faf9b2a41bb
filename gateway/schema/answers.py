"""The shapes of what comes back, for the published schema; the engine writes the answers themselves."""

from typing import Any, Literal

import msgspec


class PromptTokensDetails(msgspec.Struct):
    """Where the prompt's tokens came from."""

    cached_tokens: int | None = None


class UsageCounts(msgspec.Struct):
    """Tokens that the request is charged for."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None


class AnswerMessage(msgspec.Struct):
    """What the model says."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    tool_calls: list[dict[str, Any]] = []


FinishReason = Literal["stop", "length", "tool_calls", "content_filter"]


class ChatChoice(msgspec.Struct):
    """One of ``n`` answers."""

    index: int
    message: AnswerMessage
    finish_reason: FinishReason
    logprobs: dict[str, Any] | None = None


class ChatCompletion(msgspec.Struct):
    """A whole answer to a chat."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: UsageCounts
    service_tier: str | None = None
    system_fingerprint: str | None = None


class Delta(msgspec.Struct):
    """A further piece of an answer."""

    role: str | None = None
    content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class ChunkChoice(msgspec.Struct):
    """A further piece of one of ``n`` answers; the last one has a ``finish_reason``."""

    index: int
    delta: Delta
    finish_reason: FinishReason | None = None
    logprobs: dict[str, Any] | None = None


class ChatCompletionChunk(msgspec.Struct):
    """One event of a stream. After the last one comes ``data: [DONE]``."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: UsageCounts | None = None


class TextChoice(msgspec.Struct):
    """One continuation."""

    index: int
    text: str
    finish_reason: FinishReason | None = None
    logprobs: dict[str, Any] | None = None


class Completion(msgspec.Struct):
    """Continuations of the prompts; in a stream, a further piece of them."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: UsageCounts | None = None


class Embedding(msgspec.Struct):
    """The vector of one input: numbers, or base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(msgspec.Struct):
    """Tokens of all inputs."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct):
    """One vector for each input, in their order."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage
    service_tier: str | None = None


class ModelCard(msgspec.Struct, omit_defaults=True):
    """A model. ``max_model_len`` is tokens of prompt and answer together, once an engine has said."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    max_model_len: int | None = None


class ModelList(msgspec.Struct):
    """All models that the caller may use."""

    object: Literal["list"]
    data: list[ModelCard]


class ErrorDetails(msgspec.Struct):
    """``message`` is for a person, ``code`` and ``reason`` for a program; ``param`` is the field at fault."""

    message: str
    type: str
    param: str | None
    code: str | None
    reason: str | None = None


class ErrorBody(msgspec.Struct):
    """Every error looks like this."""

    error: ErrorDetails


class ReadyReport(msgspec.Struct):
    """What is missing, in sentences; empty when ready. ``engines`` is the state of each live worker."""

    status: Literal["ready", "not ready"]
    reasons: list[str]
    engines: dict[str, str]


class LiveReport(msgspec.Struct):
    """The process lives."""

    status: Literal["alive"]
