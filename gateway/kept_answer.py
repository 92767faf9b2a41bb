"""A kept answer on its way to a client: with an id of its own, whole or as a stream, as if it was just computed."""

import asyncio
import time

import orjson
from redis.exceptions import RedisError

from caching.entry import Entry, unpack
from domain.outcome import Outcome
from domain.stale import may_stand_in
from gateway.admission import make_item
from gateway.connection import Receive, Send
from gateway.errors import ApiError, Refusal, refuse
from gateway.fold import unfold
from gateway.idempotency import Keeper
from gateway.kept_answers import age_ms
from gateway.limit_headers import answer_headers
from gateway.lookup import Lookup
from gateway.runtime import Runtime
from gateway.schema import Ask
from gateway.tier import tier_member, with_tier
from tenants.snapshot import Principal
from tracing import logs, metrics, names
from tracing.colour import Colour
from workers.ready.item import Ending, NewItem
from workers.ready.verdict import Hit

log = logs.get(__name__)

LAST = b"data: [DONE]\n\n"
ID_PREFIXES = {"chat": "chatcmpl-", "completions": "cmpl-"}


def cache_headers(word: str, key: str, entry: Entry | None = None) -> list[tuple[bytes, bytes]]:
    """What an answer's headers say of the cache: hit, miss, coalesced or stale; its key; and how old it is.

    Whoever shows operators the key has them pin or ban the answer. It tells nothing of what was asked.
    """
    headers = [(b"x-cache", word.encode()), (b"x-sluice-cache", word.encode()), (b"x-sluice-cache-key", key.encode())]
    if entry is not None:
        headers.append((b"age", b"%d" % (age_ms(entry) // 1000)))
    if word == "stale":
        headers.append((b"warning", b'110 - "Response is Stale"'))
    return headers


def written(entry: Entry, item: NewItem, *, include_usage: bool, tier: bytes) -> bytes:
    """The body of a kept answer for one request, whole or as a stream's events.

    Raises:
        ValueError, KeyError: it is none that this release can give.
    """
    text = entry.text()
    if item.endpoint == "embeddings":
        return with_tier(text, tier) if tier else text
    answer = orjson.loads(text)
    answer["id"] = ID_PREFIXES[item.endpoint] + item.request_id
    frames = unfold(answer, include_usage=include_usage) if item.stream else [orjson.dumps(answer)]
    if tier:
        frames = [with_tier(frame, tier) for frame in frames]
    return b"data: " + b"\n\ndata: ".join(frames) + b"\n\n" + LAST if item.stream else frames[0]


class KeptAnswer:
    """Writes one kept answer to an ASGI connection. Made by ``pipeline.submit``; its request is counted and settled.

    Attributes:
        entry: the answer.
    """

    def __init__(
        self,
        runtime: Runtime,
        item: NewItem,
        entry: Entry,
        hit: Hit | None,
        started: float,
        *,
        word: str = "hit",
        include_usage: bool = False,
        tells_tier: bool = False,
    ) -> None:
        self._runtime, self._item, self._started, self.entry = runtime, item, started, entry
        tier = tier_member(item.qos_class) if tells_tier else b""
        self._body = written(entry, item, include_usage=include_usage, tier=tier)
        self._headers = [
            (b"x-request-id", item.request_id.encode()),
            (names.TRACERESPONSE_HEADER, item.traceparent.encode()),
            (names.MODEL_VERSION_HEADER, entry.version.encode()),
            *(answer_headers(item, hit) if hit else ()),
            *cache_headers(word, item.sought.key if item.sought else "", entry),
        ]

    async def send_to(self, receive: Receive | None, send: Send) -> None:
        """Write status, headers and body; all is there, so nobody is waited for."""
        item, body = self._item, self._body
        took_s = time.monotonic() - self._started
        headers = [
            *((b"openai-processing-ms", b"%d" % (1000 * took_s)), (b"openai-version", b"2020-10-01")),
            *self._headers,
        ]
        if item.stream:
            headers += [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        else:
            headers += [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        labels = (item.model, item.qos_class.value, metrics.tenant(item.tenant))
        metrics.first_token.labels(*labels).observe(took_s)
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})
        metrics.duration.labels(*labels).observe(time.monotonic() - self._started)
        self._keep_for_repetitions()

    def _keep_for_repetitions(self) -> None:
        note = self._item.note
        if note is not None and note.keep_ms:
            keeper = Keeper(self._runtime.ready, self._item.request_id, note.keep_ms)
            keeper.take(self._body)
            self._runtime.background(asyncio.ensure_future(keeper.keep()))


async def give_kept(
    runtime: Runtime, item: NewItem, ask: Ask, lookup: Lookup | None, hit: Hit, started: float
) -> KeptAnswer:
    """The kept answer that admission found, or that this process had.

    Raises:
        ApiError: 502, what is kept cannot be read; it is kept no longer.
    """
    assert lookup is not None, "nobody else is given a kept answer"
    entry = lookup.held or unpack(hit.answer)
    try:
        if entry is None:
            raise ValueError("an entry of another release")
        answer = KeptAnswer(
            *(runtime, item, entry, hit, started),
            include_usage=ask.include_usage,
            tells_tier=ask.service_tier is not None,
        )
    except (ValueError, KeyError) as error:
        log.error("kept_answer_not_readable", request_id=item.request_id, error=str(error))
        await runtime.answers.drop(lookup.key)
        raise refuse(Refusal.ENGINE_FAILED, "The kept answer cannot be read. Send the request again.") from error
    metrics.cache_requests.labels("hit_local" if lookup.held else "hit_store").inc()
    if lookup.held is None:
        runtime.answers.learn(lookup, entry)
    return answer


async def find_stale(runtime: Runtime, lookup: Lookup | None, tenant_id: int, error: ApiError) -> Entry | None:
    """The last good answer, if it may stand in for an error.

    Not where the client wants its own computed or named an age; and while no limit can be checked, only few for each
    tenant.
    """
    if lookup is None or not (lookup.reads and lookup.any_age) or lookup.only_kept:
        return None
    if not may_stand_in(error.status, error.reason, lookup.caching.max_stale_s):
        return None
    if error.reason == Refusal.STORE_UNAVAILABLE and not runtime.stale.may_give_unchecked(tenant_id):
        return None
    entry = await runtime.stale.find(lookup.key, lookup.caching.max_stale_s)
    if entry is not None:
        metrics.cache_requests.labels("stale").inc()
    return entry


async def give_stale(
    runtime: Runtime,
    principal: Principal,
    ask: Ask,
    colour: Colour,
    lookup: Lookup | None,
    error: BaseException,
    started: float,
) -> KeptAnswer | None:
    """The last good answer for a request that was not admitted; it is settled as such when the store is there again."""
    if not isinstance(error, ApiError):
        return None
    entry = await find_stale(runtime, lookup, principal.tenant_id, error)
    if entry is None:
        return None
    item = make_item(runtime, principal, ask, b"", colour, lookup)
    log.warning("stale_answer", request_id=item.request_id, reason=error.reason)
    runtime.background(asyncio.ensure_future(_settle_stale(runtime, item, entry)))
    return KeptAnswer(
        *(runtime, item, entry, None, started),
        word="stale",
        include_usage=ask.include_usage,
        tells_tier=ask.service_tier is not None,
    )


SETTLE_PATIENCE_S = 60.0
SETTLE_RETRY_S = 0.5


async def _settle_stale(runtime: Runtime, item: NewItem, entry: Entry) -> None:
    ending, admitted_ms = Ending(Outcome.COMPLETED.value, 200, "", entry.usage, None), int(time.time() * 1000)
    end = time.monotonic() + SETTLE_PATIENCE_S
    while True:
        try:
            await runtime.ready.settle_forgotten(item, ending, admitted_ms, 0, entry.version, "stale")
            return
        except (RedisError, OSError) as error:
            if time.monotonic() > end:
                log.error("stale_not_settled", request_id=item.request_id, error=str(error))
                return
            await asyncio.sleep(SETTLE_RETRY_S)
