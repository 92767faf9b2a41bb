"""What vLLM's errors mean to the port, told from their codes and words."""

from http import HTTPStatus

from pydantic import ValidationError

from workers.engines.port import RequestFailed, RequestRejected
from workers.engines.vllm_request import rejection

LENGTH_PARAM = "input_tokens"
"""What vLLM names where a prompt is too long."""

# The last two: an answer that no prompt would leave room for. Limits below 1 the gateway has refused.
_TOO_LONG = (LENGTH_PARAM, "input_text", "max_tokens", "max_completion_tokens")


def refusal_of_body(error: ValidationError) -> RequestRejected:
    """A body that vLLM's own model of it does not accept."""
    first = error.errors(include_url=False, include_input=False)[0]
    cause = first.get("ctx", {}).get("error")
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
    return rejection(400, own_words(cause) or first["msg"], getattr(cause, "parameter", None) or where or None)


def refusal_of(code: int, message: str, param: str | None, *, chat: bool) -> RequestRejected | RequestFailed:
    """An error object of vLLM's server: HTTP status, message, field."""
    if code == HTTPStatus.NOT_IMPLEMENTED:
        return rejection(400, message, param)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return RequestFailed(message)
    if param in _TOO_LONG:
        return rejection(400, message, "messages" if chat else "prompt", "context_length_exceeded")
    if code == HTTPStatus.NOT_FOUND and param == "model":
        return rejection(404, message, "model", "model_not_found")
    return rejection(code, message, param)


def words_of(error: Exception) -> str:
    """What to tell the client. vLLM wraps what it did not expect in an error that says nothing."""
    cause = error.__cause__ or error
    return own_words(error) or str(error) or f"{type(cause).__name__}: {cause}"


def own_words(error: object) -> str:
    """A validation error's own words, without the parameter and value that vLLM appends to them; "" for others."""
    return str(error.args[0]) if isinstance(error, Exception) and hasattr(error, "parameter") and error.args else ""
