"""The engine port: what a worker asks of an engine, whatever the engine is.

Every engine passes ``tests/contract/test_engine_port.py``.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from domain.trace.launches import Launches
from domain.trace.step import Step
from domain.usage import Usage
from workers.tokenization.rule import Tokenization

Endpoint = Literal["chat", "completions", "embeddings"]


@dataclass(slots=True)
class Times:
    """When an engine did what for one job: microseconds since 1970, 0 for not yet. The engine fills it as it goes.

    Attributes:
        queued_us: it took the job in; ``scheduled_us`` it first computed for it.
        first_us: the first token of any of its sequences; ``last_us`` the latest token.
        steps: of the engine since the first token, that one included.
        preemptions: how often it lost its blocks.
    """

    queued_us: int = 0
    scheduled_us: int = 0
    first_us: int = 0
    last_us: int = 0
    steps: int = 0
    preemptions: int = 0

    def token(self, now_us: int) -> None:
        """A step made tokens of it."""
        self.first_us = self.first_us or now_us
        self.last_us = now_us
        self.steps += 1


@dataclass(frozen=True, slots=True)
class Job:
    """One item as the engine gets it.

    Attributes:
        request_id: the RequestID (36 characters, UUID); answers carry ``chatcmpl-<id>`` or ``cmpl-<id>``.
        endpoint: which OpenAI endpoint the body belongs to.
        body: the client's JSON body (bytes), already validated by the gateway.
        stream: the client asked for a stream.
        priority: lower runs earlier.
        cache_salt: 32 hex characters, one per tenant: equal salts share prefixes in the KV cache.
        delivered_text: what earlier attempts already delivered (only for one plain-text choice): the engine goes
            on from there and never repeats it.
        delivered_tokens: tokens that were delivered; they count in the usage and against ``max_tokens``.
        delivered_ids: the ``Frame.token_ids`` of all that was delivered, ``delivered_tokens`` of them: with them the
            engine goes on exactly. Empty where they are not known: it goes on from the text, which may be cut into
            tokens in another way than it was made of.
        trace_headers: W3C trace context for the engine's own spans.
        times: what became of it when.
    """

    request_id: str
    endpoint: Endpoint
    body: bytes
    stream: bool
    priority: int = 10
    cache_salt: str = ""
    delivered_text: str = ""
    delivered_tokens: int = 0
    delivered_ids: tuple[int, ...] = ()
    trace_headers: Mapping[str, str] = field(default_factory=dict)
    times: Times = field(default_factory=Times, compare=False)


@dataclass(frozen=True, slots=True)
class Frame:
    """One piece of the answer.

    A stream yields one frame for each OpenAI chunk object; a unary job yields exactly one frame, the whole answer.
    ``data`` is the JSON object alone (UTF-8 bytes): no ``data:`` prefix, no ``[DONE]``. The chunk with usage
    (``choices: []``) is yielded only if the body asked for it with ``stream_options.include_usage``. It never holds a
    ``service_tier``, which is the gateway's to tell.
    ``usage`` is cumulative: what the request cost up to and including this frame. The chunk that only says who speaks
    brings no token.
    ``token_ids``: tokens (each 0 to 2^32 - 1) produced since the frame before, of a stream with one choice; some of
    their text may still be held back, because a character is not whole or a stop string may begin. Empty where an
    engine has none.
    """

    data: bytes
    usage: Usage
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """What the engine can take now, and how it has fared.

    Attributes:
        free_seqs: sequences free of ``max_num_seqs``.
        free_kv_blocks: KV blocks free of ``kv_blocks``, each of ``block_tokens`` tokens; 0 where there is no KV cache.
        preemptions: sequences that lost their blocks since the engine started.
        step_ms: time between two steps of late, smoothed; 0 while nothing has run. What a running answer waits for
            its next token.
        real_tokens: tokens computed since the engine started, of engines that pad; ``padded_tokens`` with the padding.
        prompt_tokens: of prompts that were computed since the engine started, counted where they are computed and not
            from what jobs tell; those delivered by earlier attempts are among them where they were computed again.
        cached_tokens: of these, found in the KV cache.
        generated_tokens: of answers, likewise, whether anybody got them or not.
    """

    free_seqs: int
    max_num_seqs: int
    free_kv_blocks: int
    kv_blocks: int
    block_tokens: int = 1
    preemptions: int = 0
    step_ms: float = 0.0
    real_tokens: int = 0
    padded_tokens: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What the engine is.

    Attributes:
        engine: "vllm", "padded" or "simulator".
        model: the served name.
        version: semantic version + "-" + 12 hex characters of the hash of the model's and the engine's configuration.
        dtype: "float32", "bfloat16", ...
        max_model_len: tokens of prompt and answer together.
        details: anything worth showing to an operator (bounded, JSON-able).
        endpoints: what can be asked of it.
        kv_tokens: tokens that the KV cache holds; 0 where there is none.
        tokenization: how its prompts become tokens, so that gateways can count them; None where that cannot be told.
    """

    engine: str
    model: str
    version: str
    dtype: str
    max_model_len: int
    max_num_seqs: int
    details: dict[str, Any]
    endpoints: tuple[Endpoint, ...] = ("chat", "completions")
    kv_tokens: int = 0
    tokenization: Tokenization | None = field(default=None, repr=False)


class RequestRejected(Exception):
    """The engine refused this request; nobody else is affected and a retry would not help.

    ``error`` is the inside of OpenAI's error object: message, type, param, code. ``retry_after_s``: when it may pass,
    if the engine says so.
    """

    def __init__(self, status: int, error: dict[str, Any], retry_after_s: int | None = None) -> None:
        super().__init__(error.get("message", ""))
        self.status = status
        self.error = error
        self.retry_after_s = retry_after_s


class RequestFailed(Exception):
    """The engine failed this request though it lives on; the request may be tried again."""


class EngineDead(Exception):
    """The engine is gone: nothing runs on it until it is started anew."""


class Engine(Protocol):
    """One engine. All methods run on the engine's own event loop."""

    async def start(self) -> EngineInfo:
        """Load the model and get ready to run; returns what was loaded.

        Raises:
            EngineDead: it could not start; the message says why.
        """

    async def probe(self) -> None:
        """Prove with a known answer that the engine computes what it should.

        Raises:
            EngineDead: it answers wrongly, or does not answer in time; the message says what was expected.
        """

    def room(self) -> Room:
        """What can be taken now; never blocks."""

    def take_steps(self) -> list[Step]:
        """Steps since the last call, in their order; of too many the latest. Never blocks."""

    def take_launches(self) -> list[Launches]:
        """Launches of kernels that its own processes counted since the last call; none where they count none."""

    def run(self, job: Job) -> AsyncIterator[Frame]:
        """Run one job; closing the iterator (or cancelling its task) aborts it in the engine.

        Raises:
            RequestRejected: the body is wrong for this model (over-long prompt, unsupported field, ...).
            RequestFailed: this request failed, others go on.
            EngineDead: the engine is gone.
        """

    async def stop(self) -> None:
        """Stop and leave nothing behind; safe to call twice."""
