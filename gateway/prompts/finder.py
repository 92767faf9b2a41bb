"""The way to a stored prompt: form, filter, this process, the store, the database, and no step further than needed.

An id that is made up ends at the filter, without a question to anybody. What gets past it, because the filter does not
know enough just now or is wrong about it, may ask the database only so often for each tenant.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from redis.exceptions import RedisError

from caching.filters import Existence
from caching.filters.cold import ColdKeys
from caching.prompt_rows import Head, PromptRows
from domain.prompt_id import is_well_formed, made_at_ms
from gateway.database import Database
from gateway.errors import ApiError, Refusal, refuse
from gateway.prompts.first_level import FRESH_S, FirstLevel
from gateway.prompts.known_ids import KnownIds
from gateway.prompts.misses import AbsentIds, MissLimit
from gateway.prompts.version import PromptText, text_of, unpack
from tenants.prompts import FoundVersion, read_version
from tracing import logs, metrics

log = logs.get(__name__)

MAX_DUE = 1_000

Name = tuple[int, str, int | None]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a look-up came to.

    Attributes:
        head: whose the prompt is, and its latest version; None if there is no such prompt.
        text: the version that was asked for; None if there is none of that number.
        where: it ended: "local", "truth" (the store's own list of what was made lately), "store" or "database".
    """

    head: Head | None
    text: PromptText | None
    where: str


class PromptFinder:
    """Finds stored prompts for one gateway process.

    Attributes:
        local: the first level.
        cold: prompts that keep being missed.
        due: ids of those whose row was warmed up just now; the next request that uses one takes it out, and sees to the
            engines.
    """

    def __init__(
        self,
        known: KnownIds,
        rows: PromptRows,
        database: Database,
        unknown_per_s: int,
        clock: Callable[[], float] = time.monotonic,
        is_hot: Callable[[bytes], bool] = lambda public_id: False,
    ) -> None:
        """Nothing is found yet.

        Args:
            known: which ids can exist.
            rows: the store's.
            database: has them all.
            unknown_per_s: absent ids of one tenant that may reach the database.
            clock: seconds, never going back.
            is_hot: whether an id is on the whitelist: it passes by the filter.
        """
        self.local, self.cold = FirstLevel(clock), ColdKeys()
        self.due: set[str] = set()
        self._is_hot = is_hot
        self._known, self._rows, self._database, self._clock = known, rows, database, clock
        self._absent, self._limit = AbsentIds(clock), MissLimit(unknown_per_s, clock)
        self._flights: dict[Name, tuple[asyncio.Task[Answer], float]] = {}

    async def find(self, tenant_id: int, public_id: str, number: int | None = None) -> PromptText:
        """Return a version of a tenant's prompt, the latest as of now (to :data:`FRESH_S`) for None.

        Raises:
            ApiError: 404, the tenant has no such prompt or version; 429, it looked for too many that do not exist; 503,
                the store or the database does not answer.
        """
        if not is_well_formed(public_id):
            self._end("form")
            raise absent(public_id)
        is_hot = self._is_hot(public_id.encode())
        existence = Existence.UNKNOWN if is_hot else self._known.look(public_id)
        if existence is Existence.NO:
            self._end("filter")
            raise absent(public_id)
        if (tenant_id, public_id) in self._absent:
            self._end("negative")
            raise absent(public_id)
        ask_truth = existence is Existence.UNKNOWN and not is_hot
        answer = self._here(public_id, number) or await self._together((tenant_id, public_id, number), ask_truth)
        self._end(answer.where)
        if answer.head is None and existence is Existence.MAYBE:
            self._known.was_absent(public_id)
        if answer.head is None or answer.head.tenant_id != tenant_id:
            self._absent.add((tenant_id, public_id), int(time.time() * 1000) - made_at_ms(public_id))
            raise absent(public_id)
        if answer.text is None:
            raise _no_version(number, answer.head.latest)
        return answer.text

    def _here(self, public_id: str, number: int | None) -> Answer | None:
        """What this process knows without asking."""
        held = self.local.get(public_id)
        if held is None or not self.local.is_fresh(held):
            return None
        text = held.text(number)
        if text is None and (number is None or number <= held.head.latest):
            return None
        return Answer(held.head, text, "local")

    def forget(self, public_id: str) -> None:
        """It was changed: what was found before, or is on its way, is not for those who look from now on."""
        self.local.drop(public_id)
        self.cold.leave(public_id)
        self._flights = {name: flight for name, flight in self._flights.items() if name[1] != public_id}

    async def _together(self, name: Name, ask_truth: bool) -> Answer:
        """Those of one tenant who look for the same at the same moment ask once; a moment is ``FRESH_S`` at most."""
        now_s = self._clock()
        task, begun_s = self._flights.get(name, (None, now_s))
        if task is None or now_s - begun_s >= FRESH_S:
            task = asyncio.create_task(self._ask(*name, ask_truth))
            task.add_done_callback(lambda done: self._landed(name, done))
            self._flights[name] = task, now_s
        return await asyncio.shield(task)

    def _landed(self, name: Name, task: "asyncio.Task[Answer]") -> None:
        if self._flights.get(name, (None, 0.0))[0] is task:
            del self._flights[name]
        if not task.cancelled():
            task.exception()  # looked at, also when nobody waits any more

    async def _ask(self, tenant_id: int, public_id: str, number: int | None, ask_truth: bool) -> Answer:
        asked_at_s = self._clock()
        try:
            if ask_truth and self.local.get(public_id) is None and await self._known.ask(public_id) is Existence.NO:
                return Answer(None, None, "truth")
            answer = await self._ask_store(public_id, number, asked_at_s)
            return answer or await self._ask_database(tenant_id, public_id, number, asked_at_s)
        except (RedisError, OSError) as error:
            self._end("failed")
            log.warning("prompt_not_looked_up", error=type(error).__name__)
            raise refuse(Refusal.PROMPTS_UNAVAILABLE) from error

    async def _ask_store(self, public_id: str, number: int | None, asked_at_s: float) -> Answer | None:
        held = self.local.get(public_id)
        if held is not None and held.text(number) is not None and await self._rows.head(public_id) == held.head:
            self.local.put(public_id, held.head, None, asked_at_s)
            return Answer(held.head, held.text(number), "store")
        row = await self._rows.read(public_id, number)
        text = unpack(row.text) if row is not None and row.text is not None else None
        if row is None or (text is None and (number is None or number <= row.head.latest)):
            return None
        self.local.put(public_id, row.head, text, asked_at_s)
        return Answer(row.head, text, "store")

    async def _ask_database(self, tenant_id: int, public_id: str, number: int | None, asked_at_s: float) -> Answer:
        wait_ms = self._limit.wait_ms(tenant_id)
        held = self.local.get(public_id)
        # One that was here a moment ago is not made up: whoever looks for others that are does not lose it.
        if wait_ms and (held is None or held.head.tenant_id != tenant_id):
            self._end("limited")
            raise refuse(Refusal.UNKNOWN_PROMPTS, retry_after_ms=wait_ms)
        found = await self._database.ask(tenant_id, lambda: read_version(public_id, number))
        if found is None or found.tenant_id != tenant_id:
            self._limit.charge(tenant_id)
            metrics.prompt_absent_queries.inc()
            return Answer(Head(found.tenant_id, found.latest) if found else None, None, "database")
        return await self._take(found, number, asked_at_s)

    async def _take(self, found: FoundVersion, number: int | None, asked_at_s: float) -> Answer:
        """Keep what the database had: here at once, in the store once it was missed again and again."""
        head, text = Head(found.tenant_id, found.latest), text_of(found)
        self.local.put(found.public_id, head, text, asked_at_s)
        if self.cold.missed(found.public_id):
            await self._warm(head, text)
        metrics.prompts_cold.set(len(self.cold))
        return Answer(head, text if number in (None, text.number) else None, "database")

    async def _warm(self, head: Head, text: PromptText) -> None:
        if len(self.due) >= MAX_DUE:
            self.due.clear()
        try:
            if await self._rows.put(text.public_id, head, text.number, text.pack()):
                self.cold.leave(text.public_id)
                self.due.add(text.public_id)
                metrics.prompt_warm_ups.labels("row").inc()
        except (RedisError, OSError) as error:  # what was found is found
            log.warning("prompt_not_warmed", error=type(error).__name__)

    def _end(self, where: str) -> None:
        metrics.prompt_lookups.labels(where).inc()


def absent(public_id: str) -> ApiError:
    """The one answer about an id that stands for nothing of the caller's, whoever's it may be."""
    return refuse(Refusal.PROMPT_NOT_FOUND, f"No prompt with id '{public_id[:64]}' found.", param="prompt.id")


def _no_version(number: int | None, latest: int) -> ApiError:
    message = f"This prompt has no version {number}: its latest is {latest}."
    return refuse(Refusal.PROMPT_NOT_FOUND, message, param="prompt.version")
