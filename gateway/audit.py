"""The audit: what this gateway believes, held against what the ready set has.

An event, an order or a reply can be lost when the store is killed, forgets its last second or is replaced by an empty
one. Then a client would wait for an answer that nobody writes, or an engine would run for nobody. Whatever differs at
two audits in a row is put right; what was merely on its way has arrived by then.
"""

import asyncio
from collections.abc import Mapping
from typing import cast

from redis.exceptions import RedisError

from domain.outcome import Outcome
from domain.usage import Usage
from gateway.relay import Relay
from tracing import logs
from workers.ready.ready_set import ReadySet

log = logs.get(__name__)

AUDIT_S = 2.0

Mark = tuple[int, int, int]


class Audit:
    """Looks at the open relays of one gateway, and at the items that carry its name."""

    def __init__(self, ready: ReadySet, gateway_id: str, relays: Mapping[str, Relay]) -> None:
        self._ready, self._gateway_id, self._relays = ready, gateway_id, relays
        self._marks: dict[str, Mark] = {}
        self._missing: set[str] = set()
        self._alone: set[str] = set()
        self._orphans: set[str] = set()

    async def run(self) -> None:
        """Audit for ever; while the store is away there is nothing to compare with."""
        while True:
            await asyncio.sleep(AUDIT_S)
            try:
                await self.once()
            except (RedisError, OSError) as error:
                log.warning("audit_failed", error=str(error))

    async def once(self) -> None:
        """Compare once.

        Raises:
            redis.exceptions.RedisError: the store does not answer.
        """
        await self._look_at_silent(self._silent())
        await self._look_at_orphans()

    def _silent(self) -> list[Relay]:
        """Relays that heard nothing since the last audit."""
        marks = {name: relay.mark for name, relay in self._relays.items() if relay.admitted and relay.end is None}
        before, self._marks = self._marks, marks
        return [self._relays[name] for name, mark in marks.items() if before.get(name) == mark]

    async def _look_at_silent(self, relays: list[Relay]) -> None:
        pipeline = self._ready.redis.pipeline(transaction=False)
        for relay in relays:
            pipeline.hmget(f"sl:item:{relay.request_id}", "state", "attempt", "cause", "follows")
        found = await pipeline.execute() if relays else []
        missing_before, self._missing = self._missing, set()
        alone_before, self._alone = self._alone, set()
        for relay, (state, attempt, cause, leader) in zip(relays, found, strict=True):
            if relay.mark != self._marks[relay.request_id] or relay.end is not None:
                continue
            if state is None or int(attempt) < relay.attempt:
                self._miss(relay, missing_before)
            elif state == b"lost":
                relay.lose(int(attempt), cause.decode())
            elif state == b"following":
                await self._look_at_leader(relay, leader.decode(), alone_before)

    async def _look_at_leader(self, relay: Relay, leader: str, alone_before: set[str]) -> None:
        """One whose run this one shares may have ended, and its gateway died before it passed the end on."""
        if await self._ready.redis.exists(f"sl:item:{leader}"):
            return
        if relay.request_id not in alone_before:
            self._alone.add(relay.request_id)
            return
        if await self._ready.unfollow(relay.request_id, self._gateway_id, relay.attempt):
            log.warning("leader_silent", request_id=relay.request_id)

    def _miss(self, relay: Relay, missing_before: set[str]) -> None:
        """An item that is gone may just have ended, with its last frames still on their way; so it is missed twice."""
        if relay.request_id not in missing_before:
            self._missing.add(relay.request_id)
            return
        log.error("item_forgotten", request_id=relay.request_id)
        relay.fail(Outcome.FAILED, 503)

    async def _look_at_orphans(self) -> None:
        """End items whose connection is gone, and those whose admission looked as if it had failed."""
        members = cast("set[bytes]", await self._ready.redis.smembers(f"sl:gwitems:{self._gateway_id}"))
        orphans = {name for member in members if (name := member.decode()) not in self._relays}
        for request_id in orphans & self._orphans:
            log.warning("item_abandoned", request_id=request_id)
            await self._ready.cancel(request_id, Outcome.CANCELLED.value, 499, "client_closed", Usage())
        self._orphans = orphans
