"""A client's body as vLLM may see it."""

from typing import Any

import orjson

from workers.engines.port import Job, RequestRejected

_BOTH = frozenset(
    (
        *("n", "seed", "stop", "temperature", "top_p", "top_k", "min_p", "max_tokens", "min_tokens"),
        *("frequency_penalty", "presence_penalty", "repetition_penalty", "logit_bias", "logprobs", "prompt_logprobs"),
        *("response_format", "structured_outputs", "stop_token_ids", "ignore_eos", "bad_words", "allowed_token_ids"),
        *("skip_special_tokens", "spaces_between_special_tokens", "include_stop_str_in_output", "add_special_tokens"),
        *("truncate_prompt_tokens", "truncation_side", "return_token_ids", "return_tokens_as_token_ids"),
    )
)
_CHAT = frozenset(
    (
        *("messages", "tools", "tool_choice", "parallel_tool_calls", "top_logprobs", "max_completion_tokens"),
        *("reasoning_effort", "include_reasoning", "add_generation_prompt", "continue_final_message"),
        "chat_template_kwargs",
    )
)

_FIELDS: dict[str, frozenset[str]] = {
    "chat": _BOTH | _CHAT,
    "completions": _BOTH | frozenset(("prompt", "echo", "suffix")),
}


def clean_body(job: Job) -> dict[str, Any]:
    """The body's known fields with our own beside them.

    A list of what passes, since vLLM has fields that reach into its scheduler, its cache or other requests; clients'
    unknown fields are dropped, as OpenAI tolerates them. So is the model's name: the gateway chose this engine by it.
    A null is a field left out, which vLLM does not hold of all of them; only of ``max_tokens`` it says "no bound".

    Raises:
        RequestRejected: not a JSON object, or an endpoint that a generating model does not have.
    """
    if job.endpoint not in _FIELDS:
        raise rejection(400, f"This model generates text and has no {job.endpoint}.", "model")
    try:
        raw = orjson.loads(job.body)
    except orjson.JSONDecodeError as error:
        raise rejection(400, f"The body is not JSON: {error}", None) from None
    if not isinstance(raw, dict):
        raise rejection(400, "The body must be a JSON object.", None)
    fields = _FIELDS[job.endpoint]
    body = {
        name: value for name, value in raw.items() if name in fields and (value is not None or name == "max_tokens")
    }
    body["stream"] = job.stream
    if job.stream:
        body["stream_options"] = {"include_usage": _wants_usage(raw)}
    body["priority"] = job.priority
    body["request_id"] = job.request_id
    if job.cache_salt:
        body["cache_salt"] = job.cache_salt
    return body


def take_echo(job: Job, body: dict[str, Any]) -> str:
    """The delivered text without the prompt that was echoed before it; ``body`` asks for no echo any more."""
    text, prompt = job.delivered_text, body.get("prompt")
    if not (text and body.pop("echo", False) and isinstance(prompt, str)):
        return text
    return text.removeprefix(prompt)


def count_seqs(body: dict[str, Any]) -> int:
    """Sequences that a body occupies: choices times prompts; 1 for what makes no sense."""
    prompt = body.get("prompt")
    several = isinstance(prompt, list) and bool(prompt) and not isinstance(prompt[0], int)
    choices = body.get("n")
    return (choices if isinstance(choices, int) and choices > 0 else 1) * (len(prompt) if several and prompt else 1)


def answer_limit(body: dict[str, Any]) -> int | None:
    """Tokens that the client wants at most; None if it does not say."""
    wanted = body.get("max_completion_tokens")
    wanted = body.get("max_tokens") if wanted is None else wanted
    return wanted if isinstance(wanted, int) else None


def rejection(status: int, message: str, param: str | None, code: str | None = None) -> RequestRejected:
    """A refusal in OpenAI's shape."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return RequestRejected(status, error)


def _wants_usage(raw: dict[str, Any]) -> bool:
    options = raw.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True
