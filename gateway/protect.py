"""Protection before admission: is there an answer already, may there be one, and may this one's be kept?

The first level, in this process, is asked here. The second, in the store, is asked by admission itself, in the same
script that checks the limits: so looking costs no round trip, and a kept answer is no way around a limit.
"""

import time
from dataclasses import replace

from redis.exceptions import RedisError

from caching.entry import Entry
from caching.key import answer_key
from gateway.caching_policy import may_keep
from gateway.canonical import canonical_body
from gateway.errors import Refusal, refuse
from gateway.lookup import Lookup
from gateway.runtime import Runtime
from gateway.schema import Ask
from tenants.snapshot import Principal
from tracing import metrics

REFRESH_SHARE = 0.9
"""A hot answer that has been kept for this part of its time is computed anew by one of those who ask for it."""

REFRESH_LEASE_MS = 30_000
"""For so long nobody else computes it anew."""


async def look_up(runtime: Runtime, principal: Principal, ask: Ask) -> Lookup | None:
    """Look for a request's answer in this process; None if it is to be computed whatever is kept.

    Args:
        runtime: of this process.
        principal: who calls.
        ask: what is asked, with the request itself; its model is the name under which engines serve it.

    Raises:
        ApiError: 504, the client wants a kept answer only, and there cannot be one.
    """
    lookup = _begin(runtime, principal, ask)
    if lookup is None or (lookup.only_kept and not lookup.reads):
        if ask.wishes.only_kept:
            raise refuse(Refusal.NOT_KEPT)
        if principal.caching.mode != "off" and runtime.config.response_cache:
            metrics.cache_requests.labels("bypass").inc()
        return lookup
    runtime.hot_keys.count("answer", lookup.key, principal.tenant_id, ask.model)
    held = runtime.answers.find(lookup.key, lookup.max_age_ms) if lookup.reads else None
    if held is None:
        return lookup
    if not lookup.only_kept and await _is_to_refresh(runtime, lookup, held):
        return replace(lookup, reads=False)
    return replace(lookup, held=held)


def _begin(runtime: Runtime, principal: Principal, ask: Ask) -> Lookup | None:
    caching, wishes = principal.caching, ask.wishes
    assert ask.request is not None, "a request is looked up before its prompts are counted"
    if not runtime.config.response_cache or not may_keep(caching, ask.request, wishes):
        return None
    version = runtime.only_version_of(ask.model)
    body = canonical_body(ask.request, ask.model) if version else None
    if body is None:
        return None
    key = answer_key(principal.cache_salt, ask.endpoint, version, body)
    if runtime.hot_keys.is_banned(key):
        return None
    oldest_ms = caching.ttl_s * 1000
    return Lookup(
        key=key,
        version=version,
        caching=caching,
        reads=wishes.reads,
        stores=wishes.stores,
        shares=wishes.reads and wishes.stores and not wishes.only_kept,
        only_kept=wishes.only_kept,
        any_age=wishes.max_age_s is None,
        max_age_ms=oldest_ms if wishes.max_age_s is None else min(oldest_ms, wishes.max_age_s * 1000),
    )


async def _is_to_refresh(runtime: Runtime, lookup: Lookup, held: Entry) -> bool:
    """Whether this request is the one that computes a hot answer anew before its time is up."""
    age_ms = int(time.time() * 1000) - held.stored_at_ms
    if age_ms < REFRESH_SHARE * 1000 * lookup.caching.ttl_s or not runtime.hot_keys.is_hot(lookup.key):
        return False
    try:
        name = f"sl:refresh:{lookup.key.hex()}"
        return bool(await runtime.ready.redis.set(name, runtime.gateway_id, nx=True, px=REFRESH_LEASE_MS))
    except (RedisError, OSError):
        return False
