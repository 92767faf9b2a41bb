"""The one form of a request: equal for requests that must get the same answer, however they were written.

Everything that may change the answer is in it. A field that a schema gains later is in it by itself; what is left out
is named here, with the reason. Meaning is never guessed at: texts, token ids and the order of lists stay as they came.
"""

from collections.abc import Mapping
from copy import copy
from typing import Any

import msgspec
from msgspec import UNSET

from gateway.schema import ChatRequest, CompletionsRequest, EmbeddingsRequest
from gateway.schema.completions import DEFAULT_MAX_TOKENS
from gateway.schema.fields import Sampling, TextFormat
from gateway.schema.messages import Message, PlainPart, RefusalPart

Request = ChatRequest | CompletionsRequest | EmbeddingsRequest

LEFT_OUT: Mapping[str, str] = {
    "model": "the name under which engines serve it stands beside the form: an alias is no other model",
    "stream": "whole or in pieces, it is the same answer",
    "stream_options": "what a stream carries beside the answer",
    "timeout": "how long the client waits",
    "service_tier": "how soon it is answered; the tier is written on each answer anew",
    "user": "names the client's own user",
    "metadata": "the client's own notes; but for the simulator's script, see SIMULATOR",
    "store": "nothing is stored for later retrieval here",
    "safety_identifier": "names the client's own user",
    "prompt_cache_key": "a hint about prompt caching",
    "prompt_cache_options": "a hint about prompt caching",
    "prompt_cache_retention": "a hint about prompt caching",
    "prompt_cache_breakpoint": "a hint about prompt caching, on a part of a message",
    "best_of": "it has to be equal to n",
}
"""Fields that cannot change the answer, and why."""

SIMULATOR = "sim"
"""The member of ``metadata`` that the simulator obeys."""

EXACT = 2**53
"""Below it every whole number is the same as integer and as float."""

_PACKER = msgspec.msgpack.Encoder(order="deterministic")
_ENCODER = msgspec.json.Encoder(order="deterministic")
_FREE = (
    *("tools", "response_format", "structured_outputs", "chat_template_kwargs", "audio", "function_call"),
    *("functions", "moderation", "prediction", "web_search_options"),
)
_FLOATS = ("temperature", "top_p", "min_p", "repetition_penalty")
_ABSENT: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name in kind.__struct_fields__ if name in LEFT_OUT)
    for kind in (ChatRequest, CompletionsRequest, EmbeddingsRequest)
}
_FREE_OF: dict[type, tuple[str, ...]] = {
    kind: tuple(name for name in _FREE if name in kind.__struct_fields__) for kind in (ChatRequest, CompletionsRequest)
}


def canonical_body(request: Request, model: str) -> bytes | None:
    """Put a checked request, which stays as it is, into its one form.

    Args:
        request: as the schema read it.
        model: the name under which engines serve its model.

    Returns:
        MessagePack, or None for what is nested too deeply to be compared.
    """
    # Fields take any value once a struct is made; what is written below is only encoded, never read as a request.
    form: Any = copy(request)
    metadata = getattr(request, "metadata", None)
    for name in _ABSENT[type(request)]:
        setattr(form, name, None)
    form.model = model
    if metadata and SIMULATOR in metadata:
        form.metadata = metadata[SIMULATOR]
    try:
        if isinstance(request, EmbeddingsRequest):
            _fold_embeddings(form)
        else:
            _fold_sampling(form)
            (_fold_chat if isinstance(request, ChatRequest) else _fold_completions)(form)
        return _PACKER.encode(form)
    except RecursionError:
        return None


def _fold_embeddings(form: Any) -> None:
    form.input = _one_alone(form.input)
    form.encoding_format = form.encoding_format or "float"


def _fold_sampling(form: Any) -> None:
    form.n = form.n or 1
    form.stop = [form.stop] if isinstance(form.stop, str) else form.stop or None
    if isinstance(form.response_format, TextFormat):
        form.response_format = None
    if form.logit_bias is not None:
        form.logit_bias = {str(int(token)): bias + 0.0 for token, bias in form.logit_bias.items()} or None
    form.stop_token_ids = sorted(set(form.stop_token_ids)) if form.stop_token_ids else None
    if form.allowed_token_ids is not None:
        form.allowed_token_ids = sorted(set(form.allowed_token_ids))
    form.frequency_penalty = form.frequency_penalty or 0.0
    form.presence_penalty = form.presence_penalty or 0.0
    for name in _FLOATS:
        if getattr(form, name) == 0:
            setattr(form, name, 0.0)  # of either sign


def _fold_chat(form: Any) -> None:
    given = None if form.max_tokens is UNSET else form.max_tokens
    form.max_completion_tokens, form.max_tokens = form.max_completion_tokens or given, None
    form.logprobs = form.logprobs or False
    form.top_logprobs = form.top_logprobs or 0
    form.add_special_tokens = form.add_special_tokens is True
    form.parallel_tool_calls = form.parallel_tool_calls is not False
    form.modalities = None  # text alone is all that is taken
    if form.function_call == "none":
        form.function_call = None
    if form.tools and form.tool_choice is None:
        form.tool_choice = "auto"
    form.messages = [_fold_message(one) if isinstance(one.content, list) else one for one in form.messages]
    _fold_free_json(form)


def _fold_completions(form: Any) -> None:
    form.prompt = _one_alone(form.prompt)
    form.echo = form.echo or False
    form.max_tokens = DEFAULT_MAX_TOKENS if form.max_tokens is UNSET else form.max_tokens
    form.add_special_tokens = form.add_special_tokens is not False
    _fold_free_json(form)


def _one_alone(given: Any) -> Any:
    """One text, or one list of token ids, in a list of its own is the same as without it."""
    alone = isinstance(given, list) and len(given) == 1 and not isinstance(given[0], int)
    return given[0] if alone else given


def _fold_message(message: Message) -> Any:
    """One part of text is the same as the text; hints in parts are none of the answer's business."""
    form: Any = copy(message)
    parts: Any = message.content
    if len(parts) == 1 and not isinstance(parts[0], RefusalPart):
        form.content = parts[0].text
    else:
        form.content = [
            part if isinstance(part, RefusalPart) else PlainPart(type="text", text=part.text) for part in parts
        ]
    return form


def _fold_free_json(form: Any) -> None:
    for name in _FREE_OF[type(form)]:
        value = getattr(form, name)
        if value is not None:
            setattr(form, name, _encode_free(value))


def _encode_free(value: Any) -> bytes:
    """JSON of the client's own making: members sorted, whole numbers without a fraction."""
    encoded = _ENCODER.encode(value)
    # Whole floats below EXACT, and nothing else but text, show these two bytes: hardly any body is walked through.
    if b".0" not in encoded:
        return encoded
    return msgspec.json.encode(_whole_numbers(msgspec.json.decode(encoded)))


def _whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _whole_numbers(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_whole_numbers(member) for member in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return int(value)
    return value


def is_deterministic(request: Request) -> bool:
    """Whether a repetition would give the same answer: greedy, seeded, or no sampling at all."""
    return not isinstance(request, Sampling) or request.temperature == 0 or request.seed is not None
