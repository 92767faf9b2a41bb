"""What the gateway itself needs to know of a request."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from gateway.schema.wishes import NO_WISHES, Wishes

if TYPE_CHECKING:
    from gateway.schema.chat import ChatRequest
    from gateway.schema.completions import CompletionsRequest
    from gateway.schema.embeddings import EmbeddingsRequest


@dataclass(frozen=True, slots=True)
class Ask:
    """A valid request, reduced to what admission and relay decide on; the engine gets the body itself.

    Attributes:
        endpoint: which OpenAI endpoint.
        model: the name as the client wrote it.
        stream: answer as server-sent events.
        include_usage: the stream ends with a chunk of token counts.
        service_tier: one of ``domain.qos.SERVICE_TIERS``, or None.
        max_tokens: output tokens of one choice at most; None if the client set no bound.
        choices: answers that the engine makes: ``n`` times the number of prompts.
        prompt_bytes: UTF-8 bytes of all text that becomes prompt, tool definitions included; a token id counts 4.
        timeout_s: the client waits for so long in all; None if it does not say.
        read_timeout_s: its connection is given up after so long a silence, as it tells beside the body. Nobody needs to
            wait in the queue for longer; what runs is ended by the client itself, when it closes the connection.
        idempotency_key: names the request for those who send it again, beside the body too; None for none.
        wishes: what it says of kept answers, beside the body too.
        prefix: names of the prompt's prefixes, see :mod:`domain.prefix`.
        request: the request itself until its prompts are counted (:mod:`gateway.tokens`); None after that.
        prompt_tokens: tokens of all prompts; 0 until they are counted.
        longest_at_least: tokens that the longest prompt surely has; 0 where that is not known.
    """

    endpoint: Literal["chat", "completions", "embeddings"]
    model: str
    stream: bool
    include_usage: bool
    service_tier: str | None
    max_tokens: int | None
    choices: int
    prompt_bytes: int
    timeout_s: float | None = None
    read_timeout_s: float | None = None
    idempotency_key: str | None = None
    wishes: Wishes = NO_WISHES
    prefix: bytes = b""
    request: "ChatRequest | CompletionsRequest | EmbeddingsRequest | None" = field(
        default=None, repr=False, compare=False
    )
    prompt_tokens: int = 0
    longest_at_least: int = 0
