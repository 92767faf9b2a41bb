"""The lines of the files that a tenant gets: OpenAI's object for one request of a batch."""

from hashlib import blake2b

import msgspec

from domain.usage import Usage
from gateway.bulk.call import Answered

EXPIRED = ("batch_expired", "This request was not answered before the completion window ended.")
CANCELLED = ("batch_cancelled", "The batch was cancelled before this request was answered.")


class _Details(msgspec.Struct):
    cached_tokens: int = 0


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prompt_tokens_details: _Details | None = None


class _Body(msgspec.Struct):
    usage: _Usage | None = None


_BODY = msgspec.json.Decoder(_Body)


def answered_line(job_id: str, number: int, custom_id: str, answered: Answered) -> bytes:
    """The line for a request that got an answer, of whatever status; its ``body`` is a JSON object."""
    body = answered.body
    if b"\n" in body or b"\r" in body:  # a line is a line
        body = msgspec.json.encode(msgspec.json.decode(body))
    return b'{"id":%b,"custom_id":%b,"response":{"status_code":%d,"request_id":%b,"body":%b},"error":null}' % (
        msgspec.json.encode(_line_id(job_id, number)),
        msgspec.json.encode(custom_id),
        answered.status,
        msgspec.json.encode(answered.headers.get("x-request-id", "")),
        body,
    )


def unanswered_line(job_id: str, number: int, custom_id: str, error: tuple[str, str]) -> bytes:
    """The line for a request that was not run; ``error`` is a code and a sentence."""
    code, message = error
    line = {
        "id": _line_id(job_id, number),
        "custom_id": custom_id,
        "response": None,
        "error": {"code": code, "message": message},
    }
    return msgspec.json.encode(line)


def usage_of(answered: Answered) -> Usage:
    """What an answer says that it took; nothing for one that says nothing."""
    if answered.status >= 400:
        return Usage()
    try:
        usage = _BODY.decode(answered.body).usage or _Usage()
    except msgspec.DecodeError:
        return Usage()
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else 0
    return Usage(usage.prompt_tokens, cached, usage.completion_tokens)


def _line_id(job_id: str, number: int) -> str:
    return f"batch_req_{blake2b(f'{job_id}/{number}'.encode(), digest_size=12).hexdigest()}"
