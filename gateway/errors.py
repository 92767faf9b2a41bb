"""What a client is told when it gets no answer: OpenAI's error object, and the one table behind it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from domain.outcome import Outcome


class Refusal(StrEnum):
    """Why there is no answer; safe as a metric label, and sent to the client as ``error.reason``."""

    INVALID_BODY = "invalid_body"
    INVALID_HEADER = "invalid_header"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNKNOWN_PATH = "unknown_path"
    KEY_MISSING = "key_missing"
    KEY_UNKNOWN = "key_unknown"
    KEY_REVOKED = "key_revoked"
    KEY_EXPIRED = "key_expired"
    TENANT_DISABLED = "tenant_disabled"
    SCOPE_MISSING = "scope_missing"
    ADDRESS_NOT_ALLOWED = "address_not_allowed"
    MODEL_NOT_FOUND = "model_not_found"
    MODEL_NOT_ALLOWED = "model_not_allowed"
    REQUESTS_PER_MINUTE = "requests_per_minute"
    INPUT_TOKENS_PER_MINUTE = "input_tokens_per_minute"
    OUTPUT_TOKENS_PER_MINUTE = "output_tokens_per_minute"
    TOKENS_PER_MINUTE = "tokens_per_minute"
    REQUESTS_PER_DAY = "requests_per_day"
    INPUT_TOKENS_PER_DAY = "input_tokens_per_day"
    OUTPUT_TOKENS_PER_DAY = "output_tokens_per_day"
    TOKENS_PER_MONTH = "tokens_per_month"
    COST_PER_MONTH = "cost_per_month"
    CONCURRENCY = "concurrency"
    QUEUE_FULL = "queue_full"
    QUEUE_DRAINING = "queue_draining"
    TTL = "ttl"
    NO_BACKEND = "no_backend"
    STORE_UNAVAILABLE = "store_unavailable"
    USAGE_UNAVAILABLE = "usage_unavailable"
    PROMPT_NOT_FOUND = "prompt_not_found"
    UNKNOWN_PROMPTS = "unknown_prompts"
    TOO_MANY_PROMPTS = "too_many_prompts"
    PROMPTS_UNAVAILABLE = "prompts_unavailable"
    FILE_NOT_FOUND = "file_not_found"
    FILE_IN_USE = "file_in_use"
    FILES_NOT_ALLOWED = "files_not_allowed"
    TOO_MUCH_STORED = "too_much_stored"
    FILES_UNAVAILABLE = "files_unavailable"
    BATCH_NOT_FOUND = "batch_not_found"
    BATCH_ENDED = "batch_ended"
    TOO_MANY_BATCHES = "too_many_batches"
    NEVER_FITS = "never_fits"
    REJECTED = "rejected"
    QUARANTINED = "quarantined"
    CANCELLED = "cancelled"
    ENGINE_FAILED = "engine_failed"
    TIMEOUT = "timeout"
    IDEMPOTENCY_IN_PROGRESS = "idempotency_in_progress"
    IDEMPOTENCY_KEY_USED = "idempotency_key_used"
    IDEMPOTENCY_KEY_REUSED = "idempotency_key_reused"
    NOT_KEPT = "not_kept"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the table: how a refusal looks to the client.

    Attributes:
        status: HTTP status.
        type: ``error.type``, OpenAI's coarse class of errors.
        code: ``error.code``, what a program should look at.
        message: the sentence sent when the caller has none of its own; it says what to change.
        retry_after_ms: when to come back, if the caller does not know better; None for "do not".
    """

    status: int
    type: str
    code: str | None
    message: str
    retry_after_ms: int | None = None


_INVALID, _LIMIT, _SERVER = "invalid_request_error", "rate_limit_error", "server_error"
_QUOTA = "insufficient_quota"

TABLE: dict[Refusal, Entry] = {
    Refusal.INVALID_BODY: Entry(400, _INVALID, None, "The body is not a valid request for this endpoint."),
    Refusal.INVALID_HEADER: Entry(400, _INVALID, "invalid_header", "A header of the request is malformed or repeated."),
    Refusal.BODY_TOO_LARGE: Entry(413, _INVALID, "request_too_large", "The body is too large. Send a shorter one."),
    Refusal.BODY_TOO_SLOW: Entry(408, _INVALID, "timeout", "The body took too long to arrive. Send it again."),
    Refusal.UNSUPPORTED_MEDIA_TYPE: Entry(
        415, _INVALID, "unsupported_media_type", "Send the body as JSON, with 'Content-Type: application/json'."
    ),
    Refusal.METHOD_NOT_ALLOWED: Entry(405, _INVALID, "method_not_allowed", "This path does not take that method."),
    Refusal.UNKNOWN_PATH: Entry(404, _INVALID, "unknown_url", "There is nothing at this path."),
    Refusal.KEY_MISSING: Entry(
        401,
        _INVALID,
        "missing_api_key",
        "You didn't provide an API key. Send it in the header 'Authorization: Bearer YOUR_KEY'.",
    ),
    Refusal.KEY_UNKNOWN: Entry(401, _INVALID, "invalid_api_key", "Incorrect API key provided. Check the key."),
    Refusal.KEY_REVOKED: Entry(401, _INVALID, "invalid_api_key", "This API key was revoked. Use another key."),
    Refusal.KEY_EXPIRED: Entry(401, _INVALID, "invalid_api_key", "This API key has expired. Use a newer key."),
    Refusal.TENANT_DISABLED: Entry(
        403, "permission_error", "account_deactivated", "This key's tenant is disabled. Ask the operator to enable it."
    ),
    Refusal.SCOPE_MISSING: Entry(
        403, "permission_error", "insufficient_scope", "This API key may not do that. Use one whose scopes include it."
    ),
    Refusal.ADDRESS_NOT_ALLOWED: Entry(
        403,
        "permission_error",
        "address_not_allowed",
        "This API key may not be used from your address. Call from one that it allows, or ask your operator.",
    ),
    Refusal.MODEL_NOT_FOUND: Entry(
        404, _INVALID, "model_not_found", "The model does not exist. GET /v1/models lists those that do."
    ),
    Refusal.MODEL_NOT_ALLOWED: Entry(
        403, _INVALID, "model_not_allowed", "Your plan does not include this model. GET /v1/models lists those it does."
    ),
    **{
        Refusal(name): Entry(
            429, _LIMIT, "rate_limit_exceeded", f"The limit of {what} is used up. Come back later.", 1_000
        )
        for name, what in {
            "requests_per_minute": "requests per minute",
            "input_tokens_per_minute": "prompt tokens per minute",
            "output_tokens_per_minute": "answer tokens per minute",
            "tokens_per_minute": "tokens per minute",
            "requests_per_day": "requests per day",
            "input_tokens_per_day": "prompt tokens per day",
            "output_tokens_per_day": "answer tokens per day",
        }.items()
    },
    **{
        Refusal(name): Entry(
            429,
            _QUOTA,
            _QUOTA,
            f"The month's budget of {what} is used up. Wait for the next one or ask for more.",
            1_000,
        )
        for name, what in {"tokens_per_month": "tokens", "cost_per_month": "cost"}.items()
    },
    Refusal.CONCURRENCY: Entry(
        429, _LIMIT, "rate_limit_exceeded", "Too many of your requests run at once. Wait for one to finish.", 1_000
    ),
    Refusal.QUEUE_FULL: Entry(
        429, _LIMIT, "queue_full", "Too many requests of this class are waiting. Come back later.", 1_000
    ),
    Refusal.QUEUE_DRAINING: Entry(
        503, _SERVER, "queue_draining", "An operator lets this queue run empty and takes no more for now.", 5_000
    ),
    Refusal.TTL: Entry(
        429,
        _LIMIT,
        "queue_deadline",
        "The request waited longer than its class or its timeout allows and was not run.",
        1_000,
    ),
    Refusal.NO_BACKEND: Entry(
        503, _SERVER, "no_backend", "No engine serves this model at the moment. Come back shortly.", 2_000
    ),
    Refusal.STORE_UNAVAILABLE: Entry(
        503, _SERVER, "service_unavailable", "The gateway cannot check limits at the moment. Come back shortly.", 1_000
    ),
    Refusal.USAGE_UNAVAILABLE: Entry(
        503, _SERVER, "service_unavailable", "The gateway cannot read usage at the moment. Come back shortly.", 2_000
    ),
    Refusal.PROMPT_NOT_FOUND: Entry(404, _INVALID, "prompt_not_found", "There is no such stored prompt."),
    Refusal.UNKNOWN_PROMPTS: Entry(
        429,
        _LIMIT,
        "rate_limit_exceeded",
        "You looked for too many stored prompts that do not exist. Check the ids, and come back later.",
        1_000,
    ),
    Refusal.TOO_MANY_PROMPTS: Entry(
        400, _INVALID, "too_many_prompts", "There is no room for more. Delete stored prompts that you no longer use."
    ),
    Refusal.PROMPTS_UNAVAILABLE: Entry(
        503,
        _SERVER,
        "service_unavailable",
        "The gateway cannot look stored prompts up at the moment. Come back shortly.",
        2_000,
    ),
    Refusal.FILE_NOT_FOUND: Entry(404, _INVALID, "file_not_found", "There is no such file."),
    Refusal.FILE_IN_USE: Entry(
        409,
        _INVALID,
        "file_in_use",
        "A batch that has not ended reads this file. Cancel it first, or wait for its end.",
    ),
    Refusal.FILES_NOT_ALLOWED: Entry(
        403,
        "permission_error",
        "files_not_allowed",
        "Your plan keeps no files, and so takes no batches. Ask your operator for one that does.",
    ),
    Refusal.TOO_MUCH_STORED: Entry(
        400, _INVALID, "too_much_stored", "There is no room for more. Delete files that you no longer need."
    ),
    Refusal.FILES_UNAVAILABLE: Entry(
        503,
        _SERVER,
        "service_unavailable",
        "Files and batches cannot be reached at the moment. Come back shortly.",
        2_000,
    ),
    Refusal.BATCH_NOT_FOUND: Entry(404, _INVALID, "batch_not_found", "There is no such batch."),
    Refusal.BATCH_ENDED: Entry(
        409, _INVALID, "batch_ended", "The batch has ended, or is about to, so it cannot be cancelled."
    ),
    Refusal.TOO_MANY_BATCHES: Entry(
        429,
        _LIMIT,
        "too_many_batches",
        "Too many of your batches have not ended. Wait for one to end, or cancel one.",
        60_000,
    ),
    Refusal.NEVER_FITS: Entry(
        400, _INVALID, "context_length_exceeded", "The request is larger than the model's engine can ever take."
    ),
    Refusal.QUARANTINED: Entry(
        502,
        "upstream_error",
        "quarantined",
        "The engine died twice while it ran this request, so it is not run again. Change it before you send it again.",
    ),
    Refusal.REJECTED: Entry(400, _INVALID, None, "The model cannot take this request."),
    Refusal.CANCELLED: Entry(499, _INVALID, "cancelled", "The client closed the connection."),
    Refusal.ENGINE_FAILED: Entry(
        502, "upstream_error", "engine_failed", "The engine failed while it ran this request. Send it again."
    ),
    Refusal.TIMEOUT: Entry(
        504, "upstream_error", "timeout", "The request ran longer than is allowed. Ask for fewer tokens."
    ),
    Refusal.IDEMPOTENCY_IN_PROGRESS: Entry(
        409,
        _INVALID,
        "idempotency_in_progress",
        "The first request with this Idempotency-Key still runs. Send it again when that has ended.",
        1_000,
    ),
    Refusal.IDEMPOTENCY_KEY_USED: Entry(
        409,
        _INVALID,
        "idempotency_key_used",
        "The request with this Idempotency-Key was answered and its answer is not kept. To ask anew, use a new key.",
    ),
    Refusal.IDEMPOTENCY_KEY_REUSED: Entry(
        422,
        _INVALID,
        "idempotency_key_reused",
        "This Idempotency-Key came with another body before. Use a new key for a new request.",
    ),
    Refusal.NOT_KEPT: Entry(
        504,
        _INVALID,
        "not_kept",
        "No answer to this request is kept, and 'Cache-Control: only-if-cached' asks for no other. Leave it out.",
    ),
    Refusal.INTERNAL: Entry(
        500, _SERVER, "internal_error", "The gateway failed on this request. Send it again, or report its x-request-id."
    ),
}

OUTCOMES: dict[Outcome, Refusal] = {
    Outcome.CANCELLED: Refusal.CANCELLED,
    Outcome.REJECTED: Refusal.REJECTED,
    Outcome.EXPIRED: Refusal.TTL,
    Outcome.FAILED: Refusal.ENGINE_FAILED,
    Outcome.TIMEOUT: Refusal.TIMEOUT,
    Outcome.GATEWAY_LOST: Refusal.INTERNAL,
}

_KEY_REFUSALS: dict[str, Refusal] = {
    "unknown": Refusal.KEY_UNKNOWN,
    "revoked": Refusal.KEY_REVOKED,
    "expired": Refusal.KEY_EXPIRED,
    "disabled": Refusal.TENANT_DISABLED,
}


class ApiError(Exception):
    """An error as the client sees it.

    Attributes:
        status: HTTP status.
        message: a sentence for a person; it says what to change.
        type: OpenAI's class of errors.
        param: path of the field at fault in the body, such as ``messages[0].role``.
        code: for programs.
        reason: which row of the table this is; None where ``code`` says all.
        headers: further response headers, lower-case names.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        type: str = _INVALID,  # noqa: A002 - the name of the field in OpenAI's error object
        param: str | None = None,
        code: str | None = None,
        reason: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.type = type
        self.param = param
        self.code = code
        self.reason = reason
        self.headers = dict(headers or {})

    def error(self) -> dict[str, str | None]:
        """The inside of the error object: message, type, param, code and, where known, reason."""
        inside = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return inside | {"reason": self.reason} if self.reason else inside

    def body(self) -> bytes:
        """The error object as JSON (UTF-8)."""
        return msgspec.json.encode({"error": self.error()})


def refuse(
    why: Refusal,
    message: str | None = None,
    *,
    param: str | None = None,
    retry_after_ms: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> ApiError:
    """Make the error for one row of the table.

    Every 429 and 503 says when to come back; ``retry_after_ms`` is the caller's better knowledge of it.
    """
    entry = TABLE[why]
    wait_ms = entry.retry_after_ms if retry_after_ms is None else retry_after_ms
    extra = dict(headers or {}) | (retry_headers(wait_ms) if wait_ms is not None else {})
    if entry.status in (405, 499) or why in (Refusal.QUARANTINED, Refusal.NOT_KEPT):
        extra.setdefault("x-should-retry", "false")
    return ApiError(
        entry.status,
        message or entry.message,
        type=entry.type,
        param=param,
        code=entry.code,
        reason=why.value,
        headers=extra,
    )


def retry_headers(wait_ms: int) -> dict[str, str]:
    """``retry-after`` in whole seconds, never below 1, beside the exact ``retry-after-ms``."""
    return {"retry-after": str(max(1, math.ceil(wait_ms / 1000))), "retry-after-ms": str(max(1, wait_ms))}


def outcome_error(outcome: Outcome, message: str | None = None) -> ApiError:
    """The error for a request that was admitted and ended without a full answer.

    Raises:
        KeyError: the outcome is ``COMPLETED``, which is no error.
    """
    return refuse(OUTCOMES[outcome], message)


def rejected(status: int, error: Mapping[str, object]) -> ApiError:
    """The error for a body that the engine refused; ``error`` is the inside of an OpenAI error object."""

    def text(name: str) -> str | None:
        value = error.get(name)
        return None if value is None else str(value)

    return ApiError(
        status if 400 <= status < 500 else 400,
        text("message") or TABLE[Refusal.REJECTED].message,
        type=_LIMIT if status == 429 else _INVALID,
        param=text("param"),
        code=None if text("code") in (None, str(status)) else text("code"),
        reason=Refusal.REJECTED.value,
        headers=_rejected_headers(status, error.get("retry_after_s")),
    )


def _rejected_headers(status: int, retry_after_s: object) -> dict[str, str]:
    """When to come back, as the engine says it, or as any 429 has to say it."""
    if isinstance(retry_after_s, int):
        return retry_headers(retry_after_s * 1000)
    return retry_headers(1_000) if status == 429 else {}


def key_refused(reason: str, api_key: str = "") -> ApiError:
    """The error for a key that a snapshot refused; the message never shows more than the key's ends, if it is known.

    Raises:
        KeyError: a reason other than unknown, revoked, expired, disabled.
    """
    why = _KEY_REFUSALS[reason]
    if why is not Refusal.KEY_UNKNOWN or not api_key:
        return refuse(why)
    return refuse(why, f"Incorrect API key provided: {mask_key(api_key)}. Check the key, or ask your operator for one.")


def mask_key(api_key: str) -> str:
    """A key cut to what may be shown: printable ASCII, at most its first 3 and last 4 characters."""
    shown = "".join(c if (c.isascii() and c.isalnum()) or c in "-_" else "?" for c in api_key[:3] + api_key[-4:])
    return f"{shown[:3]}***{shown[3:]}" if len(api_key) >= 16 else "***"
