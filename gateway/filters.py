"""The filters of this process: which stored prompts surely do not exist."""

import asyncio
from collections.abc import AsyncIterator, Sequence

from redis.asyncio import Redis
from redis.exceptions import RedisError

from caching.filters.existence import Existence
from caching.filters.rebuild import Rebuilder
from caching.filters.replica import Replica
from caching.filters.truth import AnnouncedTooLongAgo, FilterTruth
from domain import prompt_id
from domain.config import Config
from gateway.client_filter import ClientFilters
from gateway.database import Database
from gateway.tasks import end_all
from tenants.models import StoredPrompt
from tracing import logs, metrics

__all__ = ["AnnouncedTooLongAgo", "Existence", "Filters", "PromptSource"]

log = logs.get(__name__)

PROMPTS = "prompts"
POLL_S = 0.2
BACKOFF_S = 1.0
REST_S = 30.0
"""Between two rebuilds that were asked for, so that what is removed one by one is removed by few."""

CHUNK = 2_000
_NOBODY = 0
"""Stands for no tenant where the database counts who asks."""


class PromptSource:
    """All stored prompts, as the database has them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self) -> int:
        """How many there are.

        Raises:
            ApiError: the database does not answer.
        """
        return await self._database.ask(_NOBODY, StoredPrompt.objects.count)

    async def every_item(self) -> AsyncIterator[Sequence[bytes]]:
        """Their ids, in pieces.

        Raises:
            ApiError: the database does not answer.
        """
        last = 0
        while rows := await self._database.ask(_NOBODY, lambda last=last: _ids_after(last)):  # type: ignore[misc]  # a lambda's default
            last = rows[-1][0]
            yield [public_id.encode() for _, public_id in rows]


class Filters:
    """Answers about existence from memory; made once a process, started and stopped with it.

    ``truth`` and ``replica`` are of the filter of stored prompts, ``for_clients`` makes those of single tenants. All
    methods but :meth:`look` and :meth:`was_absent` ask the store and raise ``redis.exceptions.RedisError`` or
    ``OSError`` when it does not answer.
    """

    def __init__(self, redis: Redis, database: Database, config: Config) -> None:
        self.truth = FilterTruth(redis, PROMPTS)
        self.replica = Replica(self.truth)
        self._rebuilder = Rebuilder(
            self.truth,
            PromptSource(database),
            config.filter_library,
            config.filter_keys,
            config.filter_false_positives,
        )
        self.for_clients = ClientFilters(database)
        self._tasks: list[asyncio.Task[None]] = []
        self._told: dict[Existence, int] = dict.fromkeys(Existence, 0)
        self._told_gaps = 0

    def start(self) -> None:
        """Begin to follow the truth, and to rebuild it where it is due."""
        self._tasks = [asyncio.create_task(work) for work in (self._follow(), self._rebuild())]

    async def stop(self) -> None:
        """End both; a rebuild that is under way gives up its turn."""
        await end_all(self._tasks)

    async def announce(self) -> int:
        """The store's time (ms of the epoch), for the id of a prompt that is about to be made."""
        return await self.truth.now_ms()

    async def add(self, public_id: str) -> None:
        """Note that a prompt exists, before its row is written.

        Call it within 2 s of :meth:`announce`, and write the row within minutes of it or not at all.

        Raises:
            AnnouncedTooLongAgo: a ``RedisError``; the id must not be used. Announce another one.
        """
        await self.truth.add(public_id.encode(), prompt_id.made_at_ms(public_id))

    def look(self, public_id: str) -> Existence:
        """What is known of a well-formed id. NO: it does not exist, nobody needs to be asked."""
        return self.replica.look(public_id.encode(), prompt_id.made_at_ms(public_id))

    async def ask(self, public_id: str) -> Existence:
        """What the store knows of an id of which this process does not know enough; NO is proof here too."""
        return await self.truth.was_added(public_id.encode(), prompt_id.made_at_ms(public_id))

    def was_absent(self, public_id: str) -> None:
        """Count a MAYBE that the database did not confirm."""
        metrics.filter_absent.labels(PROMPTS).inc()

    async def ask_rebuild(self) -> None:
        """Let what was deleted leave the filter too, within a minute or so; call it after the rows are gone."""
        await self.truth.ask_rebuild()

    # --- loops ------------------------------------------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            try:
                await self.replica.sync()
            except (RedisError, OSError) as error:
                log.info("filter_not_synced", filter=PROMPTS, error=str(error) or type(error).__name__)
            except Exception:
                # Whatever it was: what cannot be followed is not known, and the loop must live.
                self.replica.forget()
                log.exception("filter_failed", filter=PROMPTS)
            self._tell()
            await asyncio.sleep(POLL_S)

    async def _rebuild(self) -> None:
        rested_at_s = 0.0
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(POLL_S)
            why = self.replica.wants_rebuild()
            if not why or (why == "asked" and loop.time() < rested_at_s):
                continue
            if await self._rebuild_once(why):
                rested_at_s = loop.time() + REST_S
            await asyncio.sleep(BACKOFF_S)

    async def _rebuild_once(self, why: str) -> bool:
        try:
            done = await self._rebuilder.rebuild()
        except Exception as error:
            log.warning("filter_not_rebuilt", filter=PROMPTS, why=why, error=str(error) or type(error).__name__)
            return False
        if done:
            metrics.filter_rebuilds.labels(PROMPTS, why).inc()
            log.info("filter_rebuilt", filter=PROMPTS, why=why)
        return done

    def _tell(self) -> None:
        """Hand the replica's own figures to Prometheus."""
        replica = self.replica
        for existence, count in replica.looks.items():
            metrics.filter_looks.labels(PROMPTS, existence.value).inc(count - self._told[existence])
            self._told[existence] = count
        metrics.filter_gaps.labels(PROMPTS).inc(replica.gaps - self._told_gaps)
        self._told_gaps = replica.gaps
        metrics.filter_fill.labels(PROMPTS).set(replica.fill)
        metrics.filter_estimate.labels(PROMPTS).set(replica.false_positives)
        begun_ms = replica.generation.begun_ms if replica.generation else 0
        metrics.filter_generation.labels(PROMPTS).set(begun_ms / 1000)


def _ids_after(last: int) -> list[tuple[int, str]]:
    return list(StoredPrompt.objects.filter(pk__gt=last).order_by("pk").values_list("pk", "public_id")[:CHUNK])
