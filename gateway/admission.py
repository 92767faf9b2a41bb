"""Admission: one script checks all limits, sets aside what the item may use, and puts it in."""

import asyncio
import math
import time
from datetime import UTC, datetime

from django.db import DatabaseError, InterfaceError
from redis.exceptions import RedisError

from domain import prefix
from domain.config import Config
from domain.qos import QosClass, choose_class
from domain.queue_limits import queue_limits
from gateway.answer_bound import counts_answers, longest_answer, with_longest_answer
from gateway.errors import Refusal, refuse
from gateway.idempotency import given_again, make_note
from gateway.lookup import Lookup
from gateway.over_limit import closed, over_limit
from gateway.runtime import Runtime
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing.colour import Colour
from workers.ready.item import NewItem
from workers.ready.verdict import Admitted, Closed, Hit, OverLimit, Repeated, Unknown

# No vocabulary holds longer words in any number: a prompt has at least so many tokens.
MAX_BYTES_PER_TOKEN = 64

SEEDING_S = 3.0
"""For so long a request waits until the store knows what was used before it began to count."""


async def admit(
    runtime: Runtime, principal: Principal, ask: Ask, body: bytes, colour: Colour, lookup: Lookup | None = None
) -> tuple[NewItem, Admitted | Hit | Repeated]:
    """Admit one request, or refuse it with the limit it met.

    Args:
        runtime: of this process.
        principal: who calls.
        ask: what is asked, its prompts counted.
        body: the client's JSON.
        colour: the request's ids.
        lookup: what it seeks among kept answers; one that wants nothing else is never put in.

    Returns:
        What was asked, and that it waits now; or that it got a kept answer; or the answer that a request with its
        idempotency key got before.

    Raises:
        ApiError: 429 with the limit, what is left and when to come back; 503 if limits cannot be checked; 504 if it
            wants a kept answer and there is none; 409 or 422 for an idempotency key that was used and has no answer to
            give.
    """
    _refuse_what_never_fits(runtime, ask)
    item = make_item(runtime, principal, ask, body, colour, lookup)
    try:
        verdict = await _verdict(runtime, item)
    except (RedisError, OSError, DatabaseError, InterfaceError) as error:
        raise refuse(Refusal.STORE_UNAVAILABLE) from error
    if isinstance(verdict, OverLimit):
        raise over_limit(verdict, item)
    if isinstance(verdict, Closed):
        raise refuse(Refusal.NOT_KEPT) if lookup and lookup.only_kept else closed(verdict, item)
    if isinstance(verdict, Hit):
        return item, verdict
    if isinstance(verdict, Repeated):
        return item, given_again(verdict)
    if verdict.unknown is not None:
        runtime.background(asyncio.create_task(runtime.seeder.fill_later(item, verdict.unknown)))
    return item, verdict


async def _verdict(runtime: Runtime, item: NewItem) -> Admitted | Hit | OverLimit | Closed | Repeated:
    end = time.monotonic() + SEEDING_S
    while isinstance(verdict := await runtime.ready.admit(item), Unknown):
        async with asyncio.timeout(max(0.0, end - time.monotonic())):
            await runtime.seeder.fill(item, verdict)
    return verdict


def make_item(
    runtime: Runtime, principal: Principal, ask: Ask, body: bytes, colour: Colour, lookup: Lookup | None
) -> NewItem:
    """What is admitted of a request."""
    output, engine_body = _answer(runtime, principal, ask, body)
    config, qos_class = runtime.config, class_of(ask, principal)
    limits = queue_limits(config, qos_class)
    prices = runtime.snapshot.current.prices_in_force(ask.model, qos_class, datetime.now(UTC))
    return NewItem(
        request_id=colour.request_id,
        tenant=principal.tenant,
        tenant_id=principal.tenant_id,
        key_id=principal.key_id,
        limits=principal.limits,
        soft_limits=principal.soft_limits,
        prices=prices,
        weight=principal.weight,
        model=ask.model,
        qos_class=qos_class,
        gateway_id=runtime.gateway_id,
        endpoint=ask.endpoint,
        stream=ask.stream,
        body=engine_body,
        cache_salt=principal.cache_salt,
        prompt_tokens=ask.prompt_tokens,
        output_tokens=output * ask.choices,
        sequences=ask.choices,
        traceparent=colour.traceparent,
        prefix=prefix.own(ask.prefix, principal.cache_salt) if config.affinity else b"",
        queue_ms=min(limits.deadline_ms, int(1000 * min(time_allowed_s(ask, config), ask.read_timeout_s or math.inf))),
        max_waiting=0 if lookup and lookup.only_kept else limits.max_waiting,
        max_waiting_bytes=limits.max_waiting_bytes,
        note=make_note(config, principal, ask, body),
        sought=lookup.sought(ask, qos_class, output) if lookup else None,
    )


def _answer(runtime: Runtime, principal: Principal, ask: Ask, body: bytes) -> tuple[int, bytes]:
    """Tokens to set aside for each answer, and the body for the engine."""
    if ask.max_tokens is not None:
        return ask.max_tokens, body
    context = _context_of(runtime, ask.model)
    if ask.endpoint != "chat" or not context or not counts_answers(principal.limits):
        return runtime.config.default_max_tokens, body
    tokens = longest_answer(principal.limits, context, ask.prompt_tokens, ask.choices)
    return tokens, with_longest_answer(body, tokens) if tokens < context - ask.prompt_tokens else body


def _context_of(runtime: Runtime, model: str) -> int:
    """Tokens of prompt and answer that the model's engines take at most; 0 while none is known."""
    return max((worker.max_model_len for worker in runtime.workers if worker.model == model), default=0)


def time_allowed_s(ask: Ask, config: Config) -> float:
    """Seconds that a request may take in all: what its client waits, never more than the gateway allows."""
    return min(config.request_timeout_s, ask.timeout_s or config.request_timeout_s)


def _refuse_what_never_fits(runtime: Runtime, ask: Ask) -> None:
    """Refuse at the door what no engine of the model could ever run; the engine itself counts exactly.

    Raises:
        ApiError: 400 with the limit.
    """
    limit = _context_of(runtime, ask.model)
    wanted, at_least = max(1, ask.max_tokens or 0), _prompt_at_least(ask)
    if ask.endpoint == "embeddings" or not limit or at_least + wanted <= limit:
        return
    if wanted >= limit:
        raise refuse(
            Refusal.NEVER_FITS,
            f"This model's maximum context length is {limit} tokens, prompt included. However, you requested "
            f"{ask.max_tokens} tokens in the completion. Lower max_tokens.",
            param="max_tokens",
        )
    raise refuse(
        Refusal.NEVER_FITS,
        f"This model's maximum context length is {limit} tokens. However, your prompt has at least {at_least} and you "
        f"requested {wanted} in the completion. Shorten the prompt or lower max_tokens.",
        param="messages" if ask.endpoint == "chat" else "prompt",
    )


def _prompt_at_least(ask: Ask) -> int:
    """Tokens that the longest prompt surely has: as counted, else what its bytes say if it is the only one."""
    alone = ask.endpoint == "chat" or ask.choices == 1
    return max(1, ask.longest_at_least or (ask.prompt_bytes // MAX_BYTES_PER_TOKEN if alone else 0))


def class_of(ask: Ask, principal: Principal) -> QosClass:
    """The class of a request: what its ``service_tier`` asks for, never better than its plan allows."""
    return choose_class(ask.service_tier, principal.best_class)
