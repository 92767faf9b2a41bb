"""Admission: one script checks and reserves the quota and puts the item in; the answer's headers say what is left."""

from redis.exceptions import RedisError

from domain.qos import QosClass, choose_class
from gateway.errors import ApiError, Refusal, refuse
from gateway.runtime import Runtime
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing.colour import Colour
from workers.ready.item import Admitted, NewItem, Refused

# No tokenizer at hand: about 4 bytes a token, and a few tokens of chat template. Settled exactly at the end.
BYTES_PER_TOKEN = 4
TEMPLATE_TOKENS = 8

_REASONS = {
    "concurrency": Refusal.CONCURRENCY,
    "requests": Refusal.REQUESTS_PER_MINUTE,
    "tokens": Refusal.TOKENS_PER_MINUTE,
    "request_too_large": Refusal.TOKENS_PER_MINUTE,
    "queue_full": Refusal.QUEUE_FULL,
}


async def admit(
    runtime: Runtime, principal: Principal, ask: Ask, body: bytes, colour: Colour
) -> tuple[NewItem, Admitted]:
    """Admit one request, or refuse it with the limit it met.

    Raises:
        ApiError: 429 with the limit, what is left and when to come back; 503 if limits cannot be checked.
    """
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
    prompt = ask.prompt_bytes // BYTES_PER_TOKEN + TEMPLATE_TOKENS
    output = (ask.max_tokens or runtime.config.default_max_tokens) * ask.choices
    return NewItem(
        request_id=colour.request_id,
        tenant=principal.tenant,
        tenant_id=principal.tenant_id,
        key_id=principal.key_id,
        requests_per_minute=principal.requests_per_minute,
        tokens_per_minute=principal.tokens_per_minute,
        max_concurrent=principal.max_concurrent,
        weight=principal.weight,
        model=ask.model,
        qos_class=class_of(ask, principal),
        gateway_id=runtime.gateway_id,
        endpoint=ask.endpoint,
        stream=ask.stream,
        body=body,
        cache_salt=principal.cache_salt,
        reserve_tokens=prompt + output,
        cost=prompt + output,
        sequences=ask.choices,
        traceparent=colour.traceparent,
    )


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
    }
    return sentences[refused.reason]
