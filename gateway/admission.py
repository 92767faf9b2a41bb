"""Admission: one script checks and reserves the quota and puts the item in; the answer's headers say what is left."""

import math

from redis.exceptions import RedisError

from domain import prefix
from domain.config import Config
from domain.limits import Level
from domain.qos import QosClass, choose_class
from domain.queue_limits import queue_limits
from gateway.errors import ApiError, Refusal, refuse
from gateway.runtime import Runtime
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing.colour import Colour
from workers.ready.item import Admitted, NewItem, Refused

# No vocabulary holds longer words in any number: a prompt has at least so many tokens.
MAX_BYTES_PER_TOKEN = 64

_REASONS = {
    "concurrency": Refusal.CONCURRENCY,
    "requests": Refusal.REQUESTS_PER_MINUTE,
    "tokens": Refusal.TOKENS_PER_MINUTE,
    "request_too_large": Refusal.TOKENS_PER_MINUTE,
    "queue_full": Refusal.QUEUE_FULL,
    "queue_bytes": Refusal.QUEUE_FULL,
    "draining": Refusal.QUEUE_DRAINING,
}


async def admit(
    runtime: Runtime, principal: Principal, ask: Ask, body: bytes, colour: Colour
) -> tuple[NewItem, Admitted]:
    """Admit one request, or refuse it with the limit it met.

    Raises:
        ApiError: 429 with the limit, what is left and when to come back; 503 if limits cannot be checked.
    """
    _refuse_what_never_fits(runtime, ask)
    item = _item(runtime, principal, ask, body, colour)
    try:
        verdict = await runtime.ready.admit(item)
    except (RedisError, OSError) as error:
        raise refuse(Refusal.STORE_UNAVAILABLE) from error
    if isinstance(verdict, Refused):
        raise _refusal(verdict, item)
    return item, verdict


def limit_headers(item: NewItem, admitted: Admitted) -> list[tuple[bytes, bytes]]:
    """OpenAI's ``x-ratelimit-*`` headers, for the limits that the plan sets."""
    headers = []
    for kind, limit, left, reset_ms in (
        ("requests", item.requests_per_minute, admitted.requests_left, admitted.requests_reset_ms),
        ("tokens", item.tokens_per_minute, admitted.tokens_left, admitted.tokens_reset_ms),
    ):
        if limit is not None and left is not None:
            headers += [
                (f"x-ratelimit-limit-{kind}".encode(), b"%d" % limit),
                (f"x-ratelimit-remaining-{kind}".encode(), b"%d" % left),
                (f"x-ratelimit-reset-{kind}".encode(), f"{reset_ms / 1000:g}s".encode()),
            ]
    return headers


def _item(runtime: Runtime, principal: Principal, ask: Ask, body: bytes, colour: Colour) -> NewItem:
    output = runtime.config.default_max_tokens if ask.max_tokens is None else ask.max_tokens
    config, qos_class = runtime.config, class_of(ask, principal)
    limits = queue_limits(config, qos_class)
    caps = {limit.name: limit.cap for limit in principal.limits if limit.level is Level.TENANT}
    return NewItem(
        request_id=colour.request_id,
        tenant=principal.tenant,
        tenant_id=principal.tenant_id,
        key_id=principal.key_id,
        requests_per_minute=caps.get("requests_per_minute"),
        tokens_per_minute=caps.get("tokens_per_minute"),
        max_concurrent=caps.get("max_concurrent"),
        weight=principal.weight,
        model=ask.model,
        qos_class=qos_class,
        gateway_id=runtime.gateway_id,
        endpoint=ask.endpoint,
        stream=ask.stream,
        body=body,
        cache_salt=principal.cache_salt,
        prompt_tokens=ask.prompt_tokens,
        output_tokens=output * ask.choices,
        sequences=ask.choices,
        traceparent=colour.traceparent,
        prefix=prefix.own(ask.prefix, principal.cache_salt) if config.affinity else b"",
        queue_ms=min(limits.deadline_ms, int(1000 * min(time_allowed_s(ask, config), ask.read_timeout_s or math.inf))),
        max_waiting=limits.max_waiting,
        max_waiting_bytes=limits.max_waiting_bytes,
    )


def time_allowed_s(ask: Ask, config: Config) -> float:
    """Seconds that a request may take in all: what its client waits, never more than the gateway allows."""
    return min(config.request_timeout_s, ask.timeout_s or config.request_timeout_s)


def _refuse_what_never_fits(runtime: Runtime, ask: Ask) -> None:
    """Refuse at the door what no engine of the model could ever run; the engine itself counts exactly.

    Raises:
        ApiError: 400 with the limit.
    """
    limit = max((worker.max_model_len for worker in runtime.workers if worker.model == ask.model), default=0)
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


def _refusal(refused: Refused, item: NewItem) -> ApiError:
    reason = _REASONS[refused.reason]
    kind = {"requests": "requests", "tokens": "tokens", "request_too_large": "tokens"}.get(refused.reason)
    headers = (
        {
            f"x-ratelimit-limit-{kind}": str(refused.limit),
            f"x-ratelimit-remaining-{kind}": str(refused.left),
            f"x-ratelimit-reset-{kind}": f"{refused.retry_ms / 1000:g}s",
        }
        if kind
        else {}
    )
    if refused.reason == "request_too_large":
        headers["x-should-retry"] = "false"
    return refuse(reason, _sentence(refused, item), retry_after_ms=max(1, refused.retry_ms), headers=headers)


def _sentence(refused: Refused, item: NewItem) -> str:
    wait = f"Try again in {max(refused.retry_ms, 1) / 1000:.3g} s."
    sentences = {
        "concurrency": f"Your plan runs {refused.limit} requests at once and all run now. Wait for one to end.",
        "requests": f"Your plan's limit of {refused.limit} requests per minute is used up. {wait}",
        "tokens": f"Your plan's limit is {refused.limit} tokens per minute; {refused.left} are left and this request "
        f"may take {item.reserve_tokens}. {wait}",
        "request_too_large": f"This request may take {item.reserve_tokens} tokens; your plan allows {refused.limit} "
        "per minute. Lower max_tokens or shorten the prompt.",
        "queue_full": f"{refused.limit} requests of class {item.qos_class.value} are waiting already. {wait}",
        "queue_bytes": f"The requests of class {item.qos_class.value} that wait already fill their "
        f"{refused.limit // 2**20} MiB. {wait}",
        "draining": f"An operator lets the queue of class {item.qos_class.value} run empty. {wait}",
    }
    return sentences[refused.reason]
