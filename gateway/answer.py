"""The answer: what the engine produces, written to the connection as it comes, whatever happens on the way."""

import asyncio
import time
from contextlib import suppress
from typing import Any

import orjson
from redis.exceptions import RedisError

from domain.outcome import Outcome, RollbackCause
from domain.retry import delay_ms
from gateway.errors import ApiError, Refusal, outcome_error, refuse, rejected
from gateway.idempotency import Keeper
from gateway.journey import Journey
from gateway.kept_answer import KeptAnswer, cache_headers, find_stale
from gateway.kept_answers import Computed
from gateway.limit_headers import answer_headers
from gateway.lookup import Lookup
from gateway.relay import End, Relay
from gateway.resume import Delivered, can_go_on, only_role, read_delivered, usage_chunk
from gateway.runtime import Runtime
from gateway.tier import tier_member, with_tier
from tracing import logs, metrics, names
from tracing.colour import begin
from workers.ready.item import Ending, NewItem
from workers.ready.verdict import Admitted

log = logs.get(__name__)

KEEP_ALIVE = b": keep-alive\n\n"
LAST = b"data: [DONE]\n\n"
END_PATIENCE_S = 60.0
END_RETRY_S = 0.5
LAST_WORD_S = 2.0
FOLLOWERS_LOOK_S = 2.0
LEADER_LOST = RollbackCause.LEADER_LOST.value


class Answer:
    """Writes one answer to an ASGI connection. Made by ``pipeline.submit`` once the item is admitted."""

    def __init__(
        self,
        runtime: Runtime,
        item: NewItem,
        admitted: Admitted,
        relay: Relay,
        started: float,
        *,
        timeout_s: float,
        include_usage: bool = False,
        tells_tier: bool = False,
        lookup: Lookup | None = None,
        notes: Journey | None = None,
    ) -> None:
        self._notes = notes or Journey(begin(()))
        self._timeout_s = timeout_s
        self._runtime, self._item, self._relay, self._started = runtime, item, relay, started
        self._include_usage, self._tells_tier = include_usage, tells_tier
        self._lookup, self._continued = lookup, False
        relay.follows = bool(admitted.follows)
        if lookup is not None:
            self._notes.cache = self._cache_word
            metrics.cache_requests.labels(self._cache_word).inc()
        self._admitted_ms = int(time.time() * 1000)
        self._tier = tier_member(item.qos_class) if tells_tier else b""
        self._headers = [
            (b"x-request-id", item.request_id.encode()),
            (names.TRACERESPONSE_HEADER, item.traceparent.encode()),
            *answer_headers(item, admitted),
        ]
        self._labels = (item.model, item.qos_class.value, metrics.tenant(item.tenant))
        keep_ms = item.note.keep_ms if item.note else 0
        self._keeper = Keeper(runtime.ready, item.request_id, keep_ms) if keep_ms else None
        self._committed = False
        self._skip_role = False
        self._settled = False

    async def send_to(self, receive: Any, send: Any) -> None:
        """Write status, headers and body; ends when the answer, the client or the time allowed ends."""
        self._send = send
        watcher = asyncio.ensure_future(self._watch(receive))
        try:
            async with asyncio.timeout(self._timeout_s):
                await (self._stream() if self._item.stream else self._whole())
        except TimeoutError:
            await self._give_up()
        finally:
            watcher.cancel()
            metrics.duration.labels(*self._labels).observe(time.monotonic() - self._started)
            if self._is_shared() and not self._settled and not self._runtime.stopping:
                self._notes.ended(Outcome.CANCELLED.value, 499, "client_closed")
                self._runtime.background(asyncio.ensure_future(self._go_on_for_others()))
            else:
                self._close()

    def _is_shared(self) -> bool:
        return self._relay.audience is not None and self._relay.end is None

    def _close(self) -> None:
        self._runtime.relays.pop(self._item.request_id, None)
        if not self._settled:
            self._cancel(Outcome.CANCELLED, 499, "client_closed")

    async def _go_on_for_others(self) -> None:
        """Its client is gone, but equal requests share its run: they would have to begin anew."""
        log.info("item_goes_on_for_others", request_id=self._item.request_id)
        self._relay.client_gone, self._send = False, _send_nowhere
        watcher = asyncio.ensure_future(self._watch_followers())
        try:
            async with asyncio.timeout(self._timeout_s - (time.monotonic() - self._started)):
                await (self._stream() if self._item.stream else self._whole())
        except TimeoutError:
            self._cancel(Outcome.TIMEOUT, 504, "timeout")
        finally:
            watcher.cancel()
            self._close()

    async def _watch_followers(self) -> None:
        """Leave when nobody shares the run any more."""
        name = f"sl:followers:{self._item.request_id}"
        while True:
            await asyncio.sleep(FOLLOWERS_LOOK_S)
            with suppress(RedisError, OSError):
                if not await self._runtime.ready.redis.exists(name):
                    self._relay.leave()
                    return

    async def _watch(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._relay.leave()

    @property
    def _cache_word(self) -> str:
        return "coalesced" if self._relay.follows else "miss"

    # --- a stream ---------------------------------------------------------------------------------------------------

    async def _stream(self) -> None:
        relay = self._relay
        while True:
            if not await relay.changed(self._runtime.config.keep_alive_s):
                if await self._stand_in():
                    return
                await self._write(KEEP_ALIVE)
                continue
            if relay.client_gone and relay.end is None:
                return
            frames = relay.take()
            if frames:
                await self._write_frames(frames)
            if relay.lost_cause:
                await self._recover()
            elif relay.end is not None:
                await self._close_stream(relay.end)
                return

    async def _write_frames(self, frames: list[bytes]) -> None:
        if not self._committed:
            metrics.first_token.labels(*self._labels).observe(time.monotonic() - self._started)
        if self._skip_role and only_role(frames[0]):
            frames = frames[1:]
        self._skip_role = False
        if self._tier:
            frames = [with_tier(frame, self._tier) for frame in frames]
        wait_s = 0 if self._committed else self._runtime.delays.seconds("relay", self._item.tenant)
        if wait_s:
            await asyncio.sleep(wait_s)
        if frames:
            await self._write(b"data: " + b"\n\ndata: ".join(frames) + b"\n\n")
            self._notes.answered()

    async def _close_stream(self, end: End) -> None:
        if end.outcome is Outcome.COMPLETED:
            self._end_well()
            await self._write(LAST, more=False)
            self._keep()
        else:
            await self._fail(_error(end), settled=end.outcome is not Outcome.FAILED)

    async def _write(self, data: bytes, more: bool = True) -> None:
        if not self._committed:
            self._committed = True
            await self._send_head(200, b"text/event-stream; charset=utf-8", [(b"cache-control", b"no-cache")])
        if self._keeper and data != KEEP_ALIVE:
            self._keeper.take(data)
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    # --- one JSON body ------------------------------------------------------------------------------------------------

    async def _whole(self) -> None:
        relay = self._relay
        while relay.end is None:
            if not await relay.changed(self._runtime.config.keep_alive_s) and await self._stand_in():
                return
            if relay.client_gone and relay.end is None:
                return
            relay.take()
            if relay.lost_cause:
                relay.forget()
                await self._recover()
        relay.take()
        if relay.end.outcome is not Outcome.COMPLETED or not relay.delivered:
            await self._fail(_error(relay.end), settled=relay.end.outcome is not Outcome.FAILED)
            return
        self._end_well()
        metrics.first_token.labels(*self._labels).observe(time.monotonic() - self._started)
        body = with_tier(relay.delivered[0], self._tier) if self._tier else relay.delivered[0]
        await self._send_json(200, body, [])
        self._notes.answered()
        if self._keeper:
            self._keeper.take(body)
        self._keep()

    def _end_well(self) -> None:
        """The answer is complete. Whoever computed it has settled it; who shared another's run does that himself."""
        if self._relay.follows and not self._settled:
            self._end(Ending(Outcome.COMPLETED.value, 200, "", self._relay.usage, None))
        self._settled = True
        self._notes.ended(Outcome.COMPLETED.value, 200)
        if self._lookup is not None:
            self._notes.cache = self._cache_word  # it may have led in the end

    def _keep(self) -> None:
        """Keep the answer for those who ask again, in the background: the client has it."""
        if self._keeper:
            self._runtime.background(asyncio.ensure_future(self._keeper.keep()))
        lookup, relay, item = self._lookup, self._relay, self._item
        if lookup is None or not lookup.stores or relay.follows:
            return
        if self._continued:
            metrics.cache_refused.labels("continued").inc()
            return
        computed = Computed(
            *(relay.delivered, item.stream, item.endpoint, item.sequences),
            *(relay.usage, relay.version, item.tenant_id),
        )
        self._runtime.background(asyncio.ensure_future(self._runtime.answers.keep(lookup, computed)))

    # --- when something goes wrong ------------------------------------------------------------------------------------

    async def _recover(self) -> None:
        """The engine was lost: go on elsewhere from what was delivered, or say clearly that it cannot."""
        relay = self._relay
        cause, relay.lost_cause = relay.lost_cause, ""
        so_far = read_delivered(relay.delivered)
        if so_far.finished == self._item.sequences:
            await self._complete(so_far)
            return
        goes_on = so_far.plain and self._item.sequences == 1 and can_go_on(self._item.body)
        if so_far.started and not goes_on:
            self._fail_here(f"the engine was lost ({cause}) and this kind of answer cannot be continued")
            return
        ids = relay.delivered_ids  # some may not show in the text yet: half a character
        tokens = relay.usage.completion_tokens if so_far.text or ids else 0
        log.info(
            "item_goes_elsewhere",
            request_id=relay.request_id,
            retry_attempt=relay.attempt,
            rollback_cause=cause,
            delivered_tokens=tokens,
        )
        if cause != LEADER_LOST:  # no engine failed under this one
            await asyncio.sleep(delay_ms(self._item.qos_class, relay.attempt) / 1000)
        await self._requeue(so_far.text, tokens, ids)
        self._skip_role = so_far.started
        self._continued = self._continued or so_far.started

    async def _complete(self, so_far: Delivered) -> None:
        """Nothing but the end itself was lost."""
        self._continued = True  # nobody told the version that answered
        self._cancel(Outcome.COMPLETED, 200, "")
        if self._include_usage and not so_far.counted:
            await self._write_frames([usage_chunk(self._relay.delivered[0], self._relay.usage)])
        self._relay.end = End(Outcome.COMPLETED, 200)

    async def _requeue(self, text: str, tokens: int, ids: bytes) -> None:
        relay, item = self._relay, self._item
        try:
            state = await self._runtime.ready.requeue(
                item.request_id, self._runtime.gateway_id, relay.attempt, text, tokens, ids
            )
        except (RedisError, OSError) as error:
            self._fail_here(f"the ready set does not answer ({error})")
            return
        relay.follows = state == "following"
        if state == "ring":
            self._runtime.tickets.publish(item.model, item.qos_class)
        elif state == "spent":
            self._fail_here("all retries are used up")
        elif state == "guilty":
            log.error("item_quarantined", request_id=item.request_id, tenant=item.tenant, retry_attempt=relay.attempt)
            metrics.quarantined.inc()
            relay.fail(Outcome.FAILED, 502, quarantined=True)
        elif state == "gone":
            self._relay.fail(Outcome.FAILED, 502)

    def _fail_here(self, why: str) -> None:
        log.warning("item_failed", request_id=self._item.request_id, why=why)
        self._relay.fail(Outcome.FAILED, 502)

    async def _give_up(self) -> None:
        """Its time is up: what runs is stopped, what never ran is refused like any that waited too long."""
        error = outcome_error(Outcome.TIMEOUT)
        ending = self._cancel(Outcome.TIMEOUT, error.status, error.code or "")
        with suppress(TimeoutError):  # the store is not waited for
            async with asyncio.timeout(LAST_WORD_S):
                if await asyncio.shield(ending) == "expired" or self._has_expired():
                    error = outcome_error(Outcome.EXPIRED)
        with suppress(TimeoutError):  # nor is a client that reads nothing
            async with asyncio.timeout(LAST_WORD_S):
                await self._fail(error, settled=True)

    def _has_expired(self) -> bool:
        return self._relay.end is not None and self._relay.end.outcome is Outcome.EXPIRED

    async def _fail(self, error: ApiError, *, settled: bool) -> None:
        """Tell the client: as a status while nothing was sent, as an error event in the stream after that."""
        log.info("answer_failed", request_id=self._item.request_id, status=error.status, reason=error.reason)
        if not settled:
            self._cancel(Outcome.FAILED, error.status, error.code or "")
        self._settled = True
        outcome = self._relay.end.outcome if self._relay.end else Outcome.FAILED
        self._notes.ended(outcome.value, error.status, error.reason or error.code or "")
        if not self._committed and await self._send_stale(error):
            return
        if not self._committed:
            headers = [(name.encode(), value.encode()) for name, value in error.headers.items()]
            await self._send_json(error.status, error.body(), headers)
        else:
            await self._write(b"data: " + error.body() + b"\n\n", more=False)

    def _cancel(self, outcome: Outcome, status: int, code: str) -> "asyncio.Task[str]":
        """End the item wherever it is. In the background: this connection may be closing."""
        self._settled = True
        self._notes.ended(outcome.value, status, code)
        return self._end(Ending(outcome.value, status, code, self._relay.usage, None))

    def _end(self, ending: Ending) -> "asyncio.Task[str]":
        task = asyncio.ensure_future(self._end_item(ending))
        self._runtime.background(task)
        return task

    async def _end_item(self, ending: Ending) -> str:
        """Tell the ready set, however long it is away; an item that it has lost is settled from here."""
        shared = self._relay.follows and ending.outcome == Outcome.COMPLETED.value
        ready, item, usage = self._runtime.ready, self._item, ending.usage
        end = time.monotonic() + END_PATIENCE_S
        while True:
            try:
                told = item.request_id, ending.outcome, ending.status, ending.code, usage
                if shared:
                    state = await ready.end_following(*told, self._relay.version)
                else:
                    state = await ready.cancel(*told)
                if state == "gone":
                    version = self._relay.version or self._runtime.version_of(item.model)
                    cache = "coalesced" if shared else ""
                    await ready.settle_forgotten(item, ending, self._admitted_ms, self._relay.attempt, version, cache)
                return state
            except (RedisError, OSError) as error:
                if time.monotonic() > end:
                    log.error("end_failed", request_id=item.request_id, error=str(error))
                    return "unknown"
                await asyncio.sleep(END_RETRY_S)

    async def _stand_in(self) -> bool:
        """While the store is away no engine is heard: the last good answer ends the wait, if there is one."""
        if self._committed or self._relay.delivered or not self._runtime.store_is_away():
            return False
        error = refuse(Refusal.STORE_UNAVAILABLE)
        if not await self._send_stale(error):
            return False
        log.warning("stale_answer", request_id=self._item.request_id, reason=error.reason)
        self._cancel(Outcome.FAILED, error.status, error.code or "")
        return True

    async def _send_stale(self, error: ApiError) -> bool:
        """Give the last good answer instead of an error, if there is one."""
        entry = await find_stale(self._runtime, self._lookup, self._item.tenant_id, error)
        if entry is None:
            return False
        self._notes.kept("stale", entry)
        stale = KeptAnswer(
            *(self._runtime, self._item, entry, None, self._started),
            word="stale",
            include_usage=self._include_usage,
            tells_tier=self._tells_tier,
        )
        self._committed = True
        await stale.send_to(None, self._send)
        return True

    # --- writing ----------------------------------------------------------------------------------------------------

    async def _send_head(self, status: int, content_type: bytes, extra: list[tuple[bytes, bytes]]) -> None:
        took_ms = (time.monotonic() - self._started) * 1000
        headers = [
            (b"content-type", content_type),
            (b"openai-processing-ms", b"%d" % took_ms),
            (b"openai-version", b"2020-10-01"),
            *self._headers,
            *extra,
        ]
        if self._relay.runs:
            run = self._relay.runs[-1]
            headers.append((names.BATCH_ID_HEADER, run.batch_id.encode()))
            headers.append((names.MODEL_VERSION_HEADER, (self._relay.version or run.model_version).encode()))
        if self._lookup is not None and status == 200:
            headers += cache_headers(self._cache_word, self._lookup.key.hex())
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _send_json(self, status: int, body: bytes, extra: list[tuple[bytes, bytes]]) -> None:
        length = (b"content-length", b"%d" % len(body))
        await self._send_head(status, b"application/json", [length, *extra])
        await self._send({"type": "http.response.body", "body": body, "more_body": False})


async def _send_nowhere(message: Any) -> None:
    """Write to a client that is gone."""


def _error(end: End) -> ApiError:
    if end.outcome is Outcome.REJECTED and end.error:
        return rejected(end.status, orjson.loads(end.error))
    if end.quarantined:
        return refuse(Refusal.QUARANTINED)
    if end.outcome is Outcome.COMPLETED:
        return refuse(Refusal.ENGINE_FAILED, "The engine ended without an answer. Send the request again.")
    return outcome_error(end.outcome)
