"""Warming the engines up: the prefix of a stored prompt that kept being missed is computed once, in the background.

Mostly there is nothing to do: the request that missed it had an engine compute it. But that request may have been
refused, or its engine may be gone. Whether an engine has the prefix is known from what it served.

The run belongs to its tenant where turns are taken, in the class P2, and to nobody (tenant and key 0) where usage is
counted: no tenant has asked for it, so it takes nothing from limits or budgets and is on no invoice. Its usage row
stays, since what engines computed and what is written down must agree. It is bounded by ``PER_MINUTE`` over all
gateways, and ``PER_TENANT`` of one tenant, and never repeated within ``AGAIN_MS``.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

from redis.exceptions import RedisError

from domain import prefix
from domain.outcome import Outcome
from domain.qos import QosClass
from domain.queue_limits import queue_limits
from gateway.prompts.prefix import Prefix, prefix_of
from gateway.prompts.version import PromptText
from gateway.relay import Relay
from gateway.tokens.estimate import estimate
from tenants.snapshot import Principal
from tracing import logs, metrics
from workers.ready.item import NewItem
from workers.ready.verdict import Admitted

if TYPE_CHECKING:
    from gateway.runtime import Runtime

log = logs.get(__name__)

PER_MINUTE = 30
PER_TENANT = 10
AGAIN_MS = 600_000
DELAY_S = 2.0
"""So long the request that missed it has to get to an engine."""
PATIENCE_S = 60.0
LOOK_S = 5.0
NOBODY = 0
_MINUTE_MS = 60_000


class WarmUp:
    """Prefills prefixes for one gateway process, one after another."""

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self._turn = asyncio.Semaphore(1)
        self._waiting: set[tuple[str, int, str]] = set()

    def later(self, principal: Principal, prompt: PromptText, model: str) -> None:
        """See to it in a while that an engine of ``model`` has the prompt's prefix; returns at once."""
        name = (prompt.public_id, prompt.number, model)
        if name in self._waiting or len(self._waiting) >= PER_MINUTE:
            return
        self._waiting.add(name)
        task = asyncio.create_task(self._see_to_it(principal, prompt, model))
        task.add_done_callback(lambda _: self._waiting.discard(name))
        self._runtime.background(task)

    async def _see_to_it(self, principal: Principal, prompt: PromptText, model: str) -> None:
        await asyncio.sleep(DELAY_S)
        async with self._turn:
            try:
                what = await self.prefill(principal, prompt, model)
            except (RedisError, OSError) as error:
                log.warning("prompt_not_prefilled", error=type(error).__name__)
                what = "failed"
        metrics.prompt_warm_ups.labels(what).inc()

    async def prefill(self, principal: Principal, prompt: PromptText, model: str) -> str:
        """Have the prefix computed, if that is worth it, allowed and in the budget.

        Args:
            principal: of the tenant.
            prompt: the prompt.
            model: a name that clients use.

        Returns:
            "prefilled", "warm", "short", "over_budget" or "failed".

        Raises:
            redis.exceptions.RedisError, OSError: the store does not answer.
        """
        served = self._runtime.find_model(model)
        if served is None or not self._may_ask(principal, served):
            return "failed"
        found = prefix_of(prompt, served)
        if found is None:
            return "short"
        hashes = prefix.own(found.hashes, principal.cache_salt)
        if await self._is_warm(served, hashes[-prefix.HASH_BYTES :]):
            return "warm"
        if not await self._in_budget(principal, prompt, served):
            return "over_budget"
        return "prefilled" if await self._run(self._item(principal, served, found, hashes)) else "failed"

    def _may_ask(self, principal: Principal, model: str) -> bool:
        if principal.allowed_models is not None and model not in principal.allowed_models:
            return False
        return any(worker.model == model and worker.ready for worker in self._runtime.workers)

    async def _is_warm(self, model: str, name: bytes) -> bool:
        workers = [worker.worker_id for worker in self._runtime.workers if worker.model == model and worker.ready]
        pipeline = self._runtime.ready.redis.pipeline(transaction=False)
        for worker_id in workers:
            pipeline.zscore(f"sl:served:{worker_id}", cast("Any", name))
        return any(score is not None for score in (await pipeline.execute() if workers else []))

    async def _in_budget(self, principal: Principal, prompt: PromptText, model: str) -> bool:
        redis, minute = self._runtime.ready.redis, int(time.time() // 60)
        once = f"sl:prefilled:{prompt.public_id}:{prompt.number}:{model}"
        if not await cast("Awaitable[Any]", redis.set(once, "1", nx=True, px=AGAIN_MS)):
            return False
        pipeline = redis.pipeline(transaction=True)
        for key in (f"sl:prefills:{minute}", f"sl:prefills:{minute}:{principal.tenant_id}"):
            pipeline.incr(key)
            pipeline.pexpire(key, 2 * _MINUTE_MS)
        of_all, _, of_tenant, _ = await pipeline.execute()
        return bool(of_all <= PER_MINUTE and of_tenant <= PER_TENANT)

    def _item(self, principal: Principal, model: str, found: Prefix, hashes: bytes) -> NewItem:
        config = self._runtime.config
        limits = queue_limits(config, QosClass.P2)
        return NewItem(
            request_id=str(uuid.uuid4()),
            tenant=principal.tenant,
            tenant_id=NOBODY,
            key_id=NOBODY,
            limits=(),
            soft_limits=(),
            prices=(),
            weight=principal.weight,
            model=model,
            qos_class=QosClass.P2,
            gateway_id=self._runtime.gateway_id,
            endpoint="chat",
            stream=False,
            body=found.body,
            cache_salt=principal.cache_salt,
            prompt_tokens=estimate(found.size_bytes),
            output_tokens=1,
            sequences=1,
            traceparent="",
            prefix=hashes if config.affinity else b"",
            queue_ms=min(limits.deadline_ms, int(PATIENCE_S * 1000)),
            max_waiting=limits.max_waiting,
            max_waiting_bytes=limits.max_waiting_bytes,
        )

    async def _run(self, item: NewItem) -> bool:
        here = self._runtime
        relay = here.relays[item.request_id] = Relay(item.request_id)
        try:
            admitted = await here.ready.admit(item)
            if not isinstance(admitted, Admitted):
                return False
            relay.admitted = True
            if admitted.ring or not admitted.has_room:
                here.tickets.arrived(item.model, item.qos_class, has_room=admitted.ring)
            return await self._wait(relay)
        finally:
            del here.relays[item.request_id]

    async def _wait(self, relay: Relay) -> bool:
        """Wait for the end; what takes too long, or lost its engine, is not worth another try."""
        end = time.monotonic() + PATIENCE_S
        while relay.end is None and not relay.lost_cause and not relay.client_gone and time.monotonic() < end:
            await relay.changed(LOOK_S)
            relay.take()
        if relay.end is not None:
            return relay.end.outcome is Outcome.COMPLETED
        await self._runtime.ready.cancel(relay.request_id, Outcome.CANCELLED.value, 499, "client_closed", relay.usage)
        return False
