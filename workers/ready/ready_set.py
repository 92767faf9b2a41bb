"""The ready set over Redis: every step of an item's life is one atomic script."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from redis.asyncio import Redis

from caching.entry import unpack
from domain.qos import POLICIES
from domain.usage import Usage
from workers import wire
from workers.ready import scripts
from workers.ready.cache_figures import CacheFigures
from workers.ready.item import Affinity, Claim, Ending, NewItem, Note, Room, Sought, decode_claimed
from workers.ready.packing import pack_limits, pack_prices, pack_texts
from workers.ready.verdict import Gap, Verdict, decode_verdict

EMPTY = b""

MAX_CALLS = 64
"""Calls under way at once. In a burst the others wait their turn: redis-py refuses whoever finds its pool of 100
connections in use."""

MAX_UNREAD = 200_000
"""Messages that wait for a gateway at most, about."""

ERASED_AT_ONCE = 500
"""Answers that one script erases, so that none holds the store up."""

MAX_TURN_S = 5.0
"""A call that has waited so long for its turn fails: the store is away or cannot keep up."""


class Pipeline(Protocol):
    """The part of a redis-py pipeline that is used here."""

    def evalsha(self, sha: str, numkeys: int, *args: Any) -> Any:
        """Queue a script."""


def _or_empty(limit: int | None) -> int | bytes:
    return EMPTY if limit is None else limit


def admit_arguments(item: NewItem) -> list[Any]:
    """The arguments of ``admit.lua`` for one item."""
    fields = [
        *item_fields(item),
        *("max_retries", POLICIES[item.qos_class].max_retries),
        *("res_i", item.prompt_tokens, "res_o", item.output_tokens, "res_c", item.most_cost_nano),
    ]
    # One argument instead of fifty: redis-py takes longer over each of them than over all of it packed.
    bound = _or_empty(item.max_waiting_bytes)
    sought = _pack_sought(item.sought) if item.sought else EMPTY
    return [item.request_id, item.max_waiting, bound, item.queue_ms, item.body, pack_texts(fields), sought]


def item_fields(item: NewItem) -> list[Any]:
    """What the store keeps of an item: name, value, ..."""
    return [
        *("tenant", item.tenant, "tenant_id", item.tenant_id, "key_id", item.key_id),
        *("model", item.model, "class", item.qos_class.value, "gw", item.gateway_id),
        *("endpoint", item.endpoint, "stream", int(item.stream), "salt", item.cache_salt),
        *("prio", POLICIES[item.qos_class].engine_priority, "seqs", item.sequences, "trace", item.traceparent),
        *("weight", item.weight, "prompt", item.prompt_tokens, "out", item.output_tokens, "prefix", item.prefix),
        *("limits", pack_limits(item.limits), "prices", pack_prices(item.prices)),
        *(_note_fields(item.note) if item.note else ()),
        *(("flight", item.sought.flight, "percent", item.sought.price_percent) if item.sought else ()),
    ]


def _pack_sought(sought: Sought) -> bytes:
    held = sought.held
    used = (held.prompt_tokens, held.cached_tokens, held.completion_tokens) if held else (0, 0, 0)
    reads = (sought.key, int(sought.reads), sought.max_age_ms, int(held is not None))
    return pack_texts([*reads, *used, sought.held_version])


def _note_fields(note: Note) -> list[Any]:
    return [
        *("idem", note.name, "idem_body", note.body, "idem_ms", note.ttl_ms),
        *("idem_keeps", int(note.keep_ms > 0)),
    ]


def claim_arguments(worker_id: str, model: str, batch_id: str, room: Room, affinity: Affinity | None) -> list[Any]:
    """The arguments of ``claim.lua``; ``affinity`` None for a claim that knows no prefixes."""
    leave_ms = affinity.leave_ms if affinity else {}
    classes = [
        (one.qos_class.value, one.seats, one.aged_seats, one.ageing_ms, leave_ms.get(one.qos_class, 0))
        for one in room.classes
    ]
    return [
        *(worker_id, model, batch_id, int(room.idle), int(room.may_try), _or_empty(room.kv_tokens)),
        *(room.prefill_tokens, room.max_prefill_tokens),
        *((affinity.slack_tokens, affinity.balance) if affinity else (EMPTY, 0)),
        room.served_prefixes,
        *(part for one in classes for part in one),
    ]


class ReadySet:
    """All that gateways and workers do to items. Every method is one round trip.

    Raises (all methods): ``redis.exceptions.RedisError`` or ``OSError`` when Redis does not answer.
    """

    def __init__(self, redis: Redis) -> None:
        self.redis = redis
        self._calls = asyncio.Semaphore(MAX_CALLS)
        self._scripts = {name: redis.register_script(scripts.source(name)) for name in scripts.NAMES}

    async def load(self) -> None:
        """Put all scripts into Redis, so that pipelines can name them by hash."""
        for script in self._scripts.values():
            await self.redis.script_load(script.script)

    async def admit(self, item: NewItem) -> Verdict:
        """Set aside what the item may use of its limits and put it in; a repeated call admits once."""
        return decode_verdict(await self._run("admit", *admit_arguments(item)), item.limits)

    async def seed(self, owner_id: int, gap: Gap, used: Sequence[int]) -> bool:
        """Fill a gap with what the database knows.

        Args:
            owner_id: the database id of the tenant or key.
            gap: what the store does not know; a gap that is filled already stays as it is.
            used: requests, prompt tokens, answer tokens, cost in billionths, tokens of adjustments by hand.

        Returns:
            False if the store began anew meanwhile, or in this very ms, so that the database has to be asked again.
        """
        return bool(await self._run("seed", gap.level.value, owner_id, gap.period, gap.since_ms, *used))

    async def claim(
        self, worker_id: str, model: str, batch_id: str, room: Room, affinity: Affinity | None = None
    ) -> Claim | None:
        """Take what there is room for in fair order; None if this worker was taken for dead."""
        reply = await self._run("claim", *claim_arguments(worker_id, model, batch_id, room, affinity))
        if reply[0] == b"dead":
            return None
        flat = reply[1]
        items = tuple(decode_claimed(*flat[i : i + 3]) for i in range(0, len(flat), 3))
        return Claim(items, int(reply[2]), tuple(name.decode() for name in reply[3]))

    def queue_progress(self, pipeline: Pipeline, worker_id: str, output_tokens: Mapping[str, int]) -> None:
        """Queue on a pipeline how many output tokens the items of a worker have so far."""
        flat = [part for request_id, tokens in output_tokens.items() for part in (request_id, tokens)]
        pipeline.evalsha(self._scripts["progress"].sha, 0, worker_id, *flat)

    def queue_finish(
        self,
        pipeline: Pipeline,
        item_ids: tuple[str, str, int],
        ending: Ending,
        version: str,
        event: bytes,
        room: tuple[str, str],
    ) -> None:
        """Queue the end of an item on a pipeline.

        Args:
            pipeline: where to queue it.
            item_ids: request id, worker id, attempt.
            ending: how it ended.
            version: the model version that answered.
            event: the packed event that tells the gateway.
            room: model, and what is free from now on (:meth:`Room.text`).
        """
        usage = ending.usage
        first = EMPTY if ending.first_token_ms is None else ending.first_token_ms
        pipeline.evalsha(
            self._scripts["finish"].sha,
            0,
            *item_ids,
            *(ending.outcome, ending.status, ending.code),
            *(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, first, version, event),
            *room,
        )

    async def lose(self, request_id: str, worker_id: str, attempt: int, cause: str, *, forgive: bool = False) -> bool:
        """Give an item back that this worker cannot finish; ``forgive`` if another item is to blame."""
        return bool(await self._run("lose", request_id, worker_id, attempt, cause, int(forgive)))

    async def acquit(self, request_id: str, worker_id: str, attempt: int) -> None:
        """A suspect got past the point at which its engine died."""
        await self._run("acquit", request_id, worker_id, attempt)

    async def requeue(
        self, request_id: str, gateway_id: str, attempt: int, text: str, tokens: int, ids: bytes = EMPTY
    ) -> str:
        """Put a lost item back with what was delivered: "ring", "ready", "following", "spent", "guilty" or "gone".

        One that shared another's run, and whose client has nothing yet, follows an equal one again ("following") or
        leads those that come.
        """
        reply = await self._run("requeue", request_id, gateway_id, attempt, text, tokens, ids)
        state: str = reply[0].decode()
        return "ring" if state == "ready" and int(reply[1]) == 1 else state

    async def cancel(self, request_id: str, outcome: str, status: int, code: str, usage: Usage) -> str:
        """End an item from the gateway's side: "closed", "expired" (it never ran), "aborting" or "gone"."""
        reply = await self._run(
            "cancel",
            *(request_id, outcome, status, code),
            *(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens),
        )
        return str(reply.decode())

    async def settle_forgotten(
        self, item: NewItem, ending: Ending, admitted_ms: int, attempt: int, version: str = "", cache: str = ""
    ) -> None:
        """Settle an item that the store has lost; if it ended in order after all, its settlement stands.

        Args:
            item: as it was admitted.
            ending: how it ended for its client.
            admitted_ms: when it was admitted; it counts in that day and month.
            attempt: how often it was run before.
            version: the model version that it is charged by, as far as known.
            cache: "coalesced" if it shared another's run, "stale" if it got the last good answer: then it is charged
                ``item.sought.price_percent``, as far as it sought an answer at all.
        """
        usage = ending.usage
        await self._run(
            "settle_forgotten",
            *(item.request_id, ending.outcome, ending.status, ending.code),
            *(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens),
            *item_fields(item),
            *("t_admit", admitted_ms, "attempt", attempt, "version", version, "cache", cache),
        )

    async def keep_answer(self, request_id: str, answer: bytes, keep_ms: int) -> None:
        """Keep the answer of a request that carried an idempotency key, for those who ask again."""
        await self.redis.set(f"sl:kept:{request_id}", answer, px=keep_ms)

    async def end_following(
        self, request_id: str, outcome: str, status: int, code: str, usage: Usage, version: str
    ) -> str:
        """End an item that shared another's run.

        Args:
            request_id: of the item.
            outcome: how it ended for its client, with HTTP ``status`` and OpenAI error ``code`` or "".
            usage: of the run; the item is charged its ``price_percent`` of it.
            version: of the model that answered.

        Returns:
            "closed", or "gone" if it has ended, is forgotten or goes on by its own.
        """
        used = (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens)
        reply = await self._run("end_following", request_id, outcome, status, code, *used, version)
        return str(reply.decode())

    async def unfollow(self, request_id: str, gateway_id: str, attempt: int) -> bool:
        """Let an item that heard no end of another's run go on alone, if that one has ended; its gateway is told."""
        return bool(await self._run("unfollow", request_id, gateway_id, attempt))

    async def send_events(self, gateway_id: str, events: list[wire.Event]) -> None:
        """Tell another gateway something; one that is gone hears nothing."""
        stream: dict[Any, Any] = {"m": wire.pack(events)}
        await self.redis.xadd(f"sl:out:{gateway_id}", stream, nomkstream=True, maxlen=MAX_UNREAD, approximate=True)

    async def store_answer(self, key: str, packed: bytes, tenant_id: int, ttl_ms: int, max_bytes: int) -> None:
        """Keep an answer for all gateways.

        Args:
            key: its name, see :class:`~workers.ready.item.Sought`.
            packed: by :meth:`caching.entry.Entry.pack`.
            tenant_id: whose request made it.
            ttl_ms: for how long it is kept at most.
            max_bytes: that all kept answers may take; others give way to it, those first that nobody asked for again.

        Raises:
            ValueError: ``packed`` is no entry.
        """
        entry = unpack(packed)
        if entry is None:
            raise ValueError("This is no packed answer.")
        used = (entry.usage.prompt_tokens, entry.usage.cached_tokens, entry.usage.completion_tokens)
        await self._run(
            "store_answer", key, packed, tenant_id, ttl_ms, max_bytes, entry.stored_at_ms, *used, entry.version
        )

    async def drop_answer(self, key: str) -> None:
        """Keep one answer no longer."""
        await self._run("drop_answer", key)

    async def erase_answers(self, tenant_id: int) -> int:
        """Keep none of the answers that this tenant's requests made; returns how many went. Several round trips."""
        erased = 0
        while count := int(await self._run("erase_answers", tenant_id, ERASED_AT_ONCE)):
            erased += count
        return erased

    async def cache_figures(self) -> CacheFigures:
        """How full the second level is."""
        names = ["once_bytes", "more_bytes", "once", "more", "evicted", "expired"]
        found = cast("list[bytes | None]", await self.redis.hmget("sl:answers", names))
        once_bytes, more_bytes, *rest = (int(value or 0) for value in found)
        return CacheFigures(once_bytes + more_bytes, *rest)

    async def gateway_beat(self, gateway_id: str, lease_ms: int) -> bool:
        """Renew a gateway's lease; False if Redis did not know it (first beat, or taken for dead)."""
        return bool(await self._run("gateway_beat", gateway_id, lease_ms))

    async def _run(self, name: str, *args: Any) -> Any:
        async with asyncio.timeout(MAX_TURN_S):
            await self._calls.acquire()
        try:
            return await self._scripts[name](args=args)
        finally:
            self._calls.release()


def worker_state_arguments(
    worker_id: str, lease_ms: int, first: bool, model: str, rooms: str, state: Mapping[str, Any]
) -> list[Any]:
    """The arguments of ``worker_beat.lua``; ``rooms`` is :meth:`Room.text`."""
    flat = [part for name, value in state.items() for part in (name, value)]
    return [worker_id, lease_ms, int(first), model, rooms, *flat]
