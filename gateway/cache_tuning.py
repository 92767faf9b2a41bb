"""Chooses what the first level evicts by, every few seconds, and tells operators what it sees and decides.

In the store, for the page "Cache":

    sl:cache:fixed               string: what an operator fixed for all gateways; absent: each follows its setting
    sl:cache:state:<gateway>     hash: figures of one gateway, JSON by field; expires when it is told no more
    sl:cache:decisions           stream: changes of policies, the last ones
    sl:cache:history             stream: figures of each gateway once a minute, the last ones
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from redis.asyncio import Redis
from redis.exceptions import RedisError

from caching.local import LocalCache
from caching.watermark import PrometheusWatermark, WatermarkUnknown
from domain.config import Config
from domain.eviction.ghost import Ghosts
from domain.eviction.k_rule import WINDOW_S, Seen
from domain.eviction.named import k_of
from domain.eviction.recent import Recent, Sample
from domain.eviction.tuning import Decision, Tuning
from tracing import logs, metrics

log = logs.get(__name__)

FIXED, STATE, DECISIONS, HISTORY = "sl:cache:fixed", "sl:cache:state:", "sl:cache:decisions", "sl:cache:history"
LOOK_S = 3.0
STATE_S = 15
MAX_DECISIONS, MAX_HISTORY = 500, 3_000
HISTORY_S = 60.0
# Until entries say how large they are.
USUAL_ENTRY_BYTES = 4_096
# Another size of the ghosts only when the number of entries that fit has moved by so much.
RESIZE = 1.25

Facts = dict[str, Any]


class CacheTuning:
    """The loop of one gateway process.

    Attributes:
        tuning: what it decides by.
    """

    def __init__(self, config: Config, gateway_id: str, cache: LocalCache, facts: Callable[[], Facts]) -> None:
        """Take the cache over.

        Args:
            config: ``cache_policy`` and ``prometheus_url`` count.
            gateway_id: of this process.
            cache: the first level.
            facts: further figures that the page shows, read at each look.
        """
        self.tuning = Tuning(config.cache_policy, Ghosts(cache.max_bytes // USUAL_ENTRY_BYTES))
        self._gateway_id, self._cache, self._facts = gateway_id, cache, facts
        self._prometheus = PrometheusWatermark(config.prometheus_url) if config.prometheus_url else None
        self._recent = Recent()
        self._answers: deque[tuple[float, dict[str, int]]] = deque()
        self._told = dict.fromkeys(("hits", "misses", "evictions"), 0)
        self._told_history_s = float("-inf")
        self._best_possible = 0.0
        self._watermark_from = "own"
        cache.ghosts = self.tuning.ghosts
        cache.change_policy(self.tuning.policy)

    async def run(self, redis: Redis) -> None:
        """Look for ever."""
        try:
            while True:
                await self.look(redis, time.monotonic())
                await asyncio.sleep(LOOK_S)
        finally:
            if self._prometheus is not None:
                await self._prometheus.stop()

    async def look(self, redis: Redis, now_s: float) -> None:
        """Look once: read what operators fixed, decide, tell. Never raises for the store."""
        await self._read_fixed(redis)
        cache, ghosts = self._cache, self.tuning.ghosts
        self._resize()
        used = cache.bytes / cache.max_bytes
        self._recent.add(Sample(now_s, used, cache.hits, cache.hits + cache.misses, ghosts.firsts))
        watermark = await self._watermark()
        seen = Seen(watermark, self._recent.hit_rate(), self._recent.ceiling(), cache.take_slowest_eviction_s())
        decision = self.tuning.look(seen, now_s)
        if decision is not None:
            cache.change_policy(decision.after)
            log.info("cache_policy_changed", before=decision.before, after=decision.after, why=decision.why)
        self._tell_metrics(seen, now_s)
        try:
            await self._tell_store(redis, seen, decision, now_s)
        except (RedisError, OSError) as error:
            log.warning("cache_state_not_told", error=str(error))

    # --- seeing -----------------------------------------------------------------------------------------------------

    async def _read_fixed(self, redis: Redis) -> None:
        try:
            raw = cast("bytes | None", await redis.get(FIXED))
        except (RedisError, OSError):
            return  # what was fixed before holds
        self.tuning.fix(raw.decode(errors="replace") if raw else "")

    async def _watermark(self) -> float | None:
        if self._prometheus is not None:
            try:
                share = await self._prometheus.read()
            except WatermarkUnknown as why:
                if self._watermark_from != "own":
                    log.warning("watermark_unknown", why=str(why))
            else:
                self._watermark_from = "prometheus"
                return share
        self._watermark_from = "own"
        return self._recent.watermark()

    def _resize(self) -> None:
        cache, ghosts = self._cache, self.tuning.ghosts
        if cache.entries:
            room = cache.max_bytes * cache.entries // cache.bytes
            if not ghosts.capacity / RESIZE <= room <= ghosts.capacity * RESIZE:
                ghosts.resize(room)

    # --- telling ----------------------------------------------------------------------------------------------------

    def _tell_metrics(self, seen: Seen, now_s: float) -> None:
        cache = self._cache
        metrics.cache_local_bytes.set(cache.bytes)
        metrics.cache_local_max_bytes.set(cache.max_bytes)
        metrics.cache_local_entries.set(cache.entries)
        counters = {
            "hits": metrics.cache_local_hits,
            "misses": metrics.cache_local_misses,
            "evictions": metrics.cache_local_evictions,
        }
        for name, counter in counters.items():
            now = getattr(cache, name)
            counter.inc(now - self._told[name])
            self._told[name] = now
        metrics.cache_local_k.set(k_of(self.tuning.policy))
        for name, rate in self.tuning.ghosts.rates().items():
            metrics.cache_local_policy.labels(name).set(name == self.tuning.policy)
            metrics.cache_ghost_hit_rate.labels(name).set(rate)
        metrics.cache_local_watermark.set(seen.watermark or 0.0)
        metrics.cache_local_ceiling.set(seen.ceiling)
        metrics.cache_tuning_paused.set(self.tuning.is_paused(now_s))

    async def _tell_store(self, redis: Redis, seen: Seen, decision: Decision | None, now_s: float) -> None:
        is_minute = now_s - self._told_history_s >= HISTORY_S
        if is_minute:
            self._told_history_s = now_s
            self._best_possible = await asyncio.to_thread(self.tuning.ghosts.best_possible)
        figures = self._figures(seen)
        state = {**figures, **self._state(now_s), **self._facts(), "at": time.time()}
        name = f"{STATE}{self._gateway_id}"
        packed = {field: json.dumps(value) for field, value in state.items()}
        pipeline = redis.pipeline(transaction=False)
        pipeline.hset(name, items=[part for pair in packed.items() for part in pair])
        pipeline.expire(name, STATE_S)
        if decision is not None:
            change = {"before": decision.before, "after": decision.after, "why": decision.why}
            self._add(pipeline, DECISIONS, MAX_DECISIONS, {**change, **figures})
        if is_minute:
            self._add(pipeline, HISTORY, MAX_HISTORY, figures)
        await pipeline.execute()

    def _add(self, pipeline: Any, stream: str, most: int, fields: Facts) -> None:
        entry = json.dumps({"gateway": self._gateway_id, "at": time.time(), **fields})
        pipeline.xadd(stream, {"m": entry}, maxlen=most, approximate=True)

    def _figures(self, seen: Seen) -> Facts:
        return {
            "policy": self.tuning.policy,
            "watermark": _rounded(seen.watermark),
            "hit_rate": _rounded(seen.hit_rate),
            "ceiling": _rounded(seen.ceiling),
        }

    def _state(self, now_s: float) -> Facts:
        cache, ghosts = self._cache, self.tuning.ghosts
        return {
            "mode": self.tuning.mode,
            "fixed": bool(self.tuning.fixed),
            "paused": self.tuning.is_paused(now_s),
            "watermark_from": self._watermark_from,
            "bytes": cache.bytes,
            "max_bytes": cache.max_bytes,
            "entries": cache.entries,
            "evictions": cache.evictions,
            "ghosts": {name: round(rate, 4) for name, rate in ghosts.rates().items()},
            "ghost_ceiling": round(ghosts.ceiling, 4),
            # Reckoned from an earlier window than the rates: what a policy has reached since is possible too.
            "best_possible": round(max([self._best_possible, *ghosts.rates().values()]), 4),
            "sampled": ghosts.sampled,
            "answers": self._recent_answers(now_s),
        }

    def _recent_answers(self, now_s: float) -> dict[str, int]:
        """Requests of the last five minutes by what kept answers did for them."""
        now = {
            sample.labels["outcome"]: int(sample.value)
            for family in metrics.cache_requests.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }
        self._answers.append((now_s, now))
        while len(self._answers) > 1 and self._answers[1][0] <= now_s - WINDOW_S:
            self._answers.popleft()
        before = self._answers[0][1]
        return {outcome: count - before.get(outcome, 0) for outcome, count in now.items()}


def _rounded(share: float | None) -> float | None:
    return None if share is None else round(share, 4)
