"""Answers that are kept: in this process, in the store for all gateways, and on disk for bad times."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from redis.exceptions import RedisError

from caching.entry import Entry, compress
from caching.local import LocalCache
from domain.config import Config
from domain.eviction.named import make_policy
from domain.usage import Usage
from gateway.fold import UnknownForm, check_whole, fold, has_good_end
from gateway.lookup import Lookup
from gateway.stale import Stale
from tracing import logs, metrics
from workers.ready.ready_set import ReadySet

log = logs.get(__name__)

FOLD_INLINE_FRAMES = 200
"""Answers of more pieces are made whole on a thread, beside the event loop."""


@dataclass(frozen=True, slots=True)
class Computed:
    """An answer that completed with 200, as its client got it.

    Attributes:
        frames: what the engine made: chunks, or the whole answer alone.
        stream: they are chunks.
        endpoint: "chat", "completions" or "embeddings".
        choices: that were asked for.
        usage: tokens of the request.
        version: of the model that answered.
        tenant_id: whose request it was.
    """

    frames: Sequence[bytes]
    stream: bool
    endpoint: str
    choices: int
    usage: Usage
    version: str
    tenant_id: int


class NotKept(Exception):
    """An answer that is not kept; the message is why, safe as a metric label."""


class KeptAnswers:
    """Both levels of one gateway process.

    Attributes:
        local: the first level.
    """

    def __init__(self, config: Config, stale: Stale) -> None:
        self._config, self._stale = config, stale
        # What it evicts by is the business of gateway/cache_tuning.py, which begins with what is set.
        self.local = LocalCache(config.cache_local_mib << 20, make_policy("lru"), time.monotonic)

    def start(self, ready: ReadySet) -> None:
        """Take the store."""
        self._ready = ready

    def find(self, key: bytes, max_age_ms: int) -> Entry | None:
        """What this process has, if it is not older."""
        entry = self.local.get(key)
        return entry if entry is not None and age_ms(entry) <= max_age_ms else None

    def learn(self, lookup: Lookup, entry: Entry) -> None:
        """Hold here what the store gave."""
        self.local.put(lookup.key, entry, lookup.caching.ttl_s - age_ms(entry) / 1000)

    async def keep(self, lookup: Lookup, computed: Computed) -> None:
        """Keep an answer for those who ask for the same, if it is good; its client has it already. Never raises."""
        try:
            entry = await self._entry(lookup, computed)
        except NotKept as why:
            metrics.cache_refused.labels(str(why)).inc()
            return
        caching = lookup.caching
        self.local.put(lookup.key, entry, caching.ttl_s)
        await self._stale.keep(lookup.key, entry, computed.tenant_id, caching.max_stale_s)
        try:
            await self._ready.store_answer(
                *(lookup.key.hex(), entry.pack(), computed.tenant_id, caching.ttl_s * 1000),
                self._config.cache_store_mib << 20,
            )
        except (RedisError, OSError) as error:
            metrics.cache_refused.labels("store_away").inc()
            log.warning("answer_not_stored", error=str(error))
        else:
            metrics.cache_stored.inc()

    async def drop(self, key: bytes) -> None:
        """Keep one answer no longer. Never raises."""
        self.local.drop(key)
        try:
            await self._ready.drop_answer(key.hex())
        except (RedisError, OSError) as error:
            log.warning("answer_not_dropped", error=str(error))

    async def forget_tenant(self, tenant_id: int) -> int:
        """Hold nothing here that a tenant's requests made; returns how many answers went."""
        return self.local.drop_tenant(tenant_id)

    async def tell_metrics(self) -> None:
        """Set the gauges of both levels.

        Raises:
            redis.exceptions.RedisError, OSError: the store does not answer.
        """
        metrics.cache_bytes.labels("local").set(self.local.bytes)
        metrics.cache_entries.labels("local").set(self.local.entries)
        figures = await self._ready.cache_figures()
        metrics.cache_bytes.labels("store").set(figures.bytes)
        metrics.cache_entries.labels("store").set(figures.once_entries + figures.more_entries)

    async def _entry(self, lookup: Lookup, computed: Computed) -> Entry:
        if computed.version != lookup.version:
            raise NotKept("other_version")
        if sum(map(len, computed.frames)) > _STREAM_FACTOR * self._config.cache_max_answer_kib << 10:
            raise NotKept("too_long")
        if len(computed.frames) > FOLD_INLINE_FRAMES:
            body = await asyncio.to_thread(_whole, computed)
        else:
            body = _whole(computed)
        if len(body) > self._config.cache_max_answer_kib << 10:
            raise NotKept("too_long")
        return Entry(compress(body), computed.version, computed.tenant_id, int(time.time() * 1000), computed.usage)


_STREAM_FACTOR = 64
"""A stream is longer than its whole answer, but hardly by more."""


def age_ms(entry: Entry) -> int:
    """Since it was computed."""
    return max(0, int(time.time() * 1000) - entry.stored_at_ms)


def _whole(computed: Computed) -> bytes:
    """The answer as one JSON object.

    Raises:
        NotKept: it is not good enough, or cannot be given in both forms.
    """
    if computed.endpoint == "embeddings":
        return computed.frames[0]
    try:
        answer = _read(computed)
    except (UnknownForm, ValueError, KeyError, TypeError) as error:
        log.info("answer_of_unknown_form", endpoint=computed.endpoint, error=type(error).__name__)
        raise NotKept("unknown_form") from error
    if not has_good_end(answer, computed.choices):
        raise NotKept("cut_short")
    return orjson.dumps(answer)


def _read(computed: Computed) -> dict[str, Any]:
    if computed.stream:
        return fold(computed.frames, computed.usage)
    return check_whole(computed.frames[0], computed.usage)
