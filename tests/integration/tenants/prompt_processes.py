"""Gateway processes that look for stored prompts: real store, real database, a filter that says what a test wants."""

import json
from itertools import count
from typing import Any

from django.db import OperationalError
from redis.asyncio import Redis as AsyncRedis

from caching.filters import Existence
from caching.prompt_rows import PromptRows
from domain.prompt_id import RANDOM_BYTES, make_id
from gateway.database import Database
from gateway.errors import ApiError, Refusal
from gateway.prompts.finder import PromptFinder
from gateway.prompts.keeper import PromptKeeper
from gateway.schema.prompts import PromptBody, parse_new_prompt

LONG_AGO_MS = 1_700_000_000_000
PER_S = 5


class Known:
    """Says of every id what a test wants; notes what it was told."""

    def __init__(self) -> None:
        self.says = Existence.MAYBE
        self.store_says = Existence.UNKNOWN
        self.asked: list[str] = []
        self.added: list[str] = []
        self.not_there: list[str] = []
        self.rebuilds = 0
        self._times = count(LONG_AGO_MS)

    async def announce(self) -> int:
        return next(self._times)

    async def add(self, public_id: str) -> None:
        self.added.append(public_id)

    def look(self, public_id: str) -> Existence:
        return self.says

    async def ask(self, public_id: str) -> Existence:
        self.asked.append(public_id)
        return self.store_says

    def was_absent(self, public_id: str) -> None:
        self.not_there.append(public_id)

    async def ask_rebuild(self) -> None:
        self.rebuilds += 1


class CountingDatabase(Database):
    """The real one, which counts; or one that is away."""

    def __init__(self) -> None:
        super().__init__(32, 128, Refusal.PROMPTS_UNAVAILABLE)
        self.asked = 0
        self.away = False

    async def ask(self, tenant_id: int, question: Any) -> Any:
        self.asked += 1

        def answer() -> Any:
            if self.away:
                raise OperationalError("away")
            return question()

        return await super().ask(tenant_id, answer)


class Process:
    """One gateway process, with a clock that a test moves."""

    def __init__(self, redis: AsyncRedis) -> None:
        self.now_s = 1_000.0
        self.known, self.database, self.rows = Known(), CountingDatabase(), PromptRows(redis)
        self.hot: set[bytes] = set()
        self.finder = PromptFinder(
            self.known, self.rows, self.database, PER_S, lambda: self.now_s, lambda key: key in self.hot
        )
        self.keeper = PromptKeeper(self.known, self.rows, self.database, self.finder)

    async def status(self, tenant_id: int, public_id: str, number: int | None = None) -> int:
        """200, or that of the refusal."""
        try:
            await self.finder.find(tenant_id, public_id, number)
        except ApiError as error:
            return error.status
        return 200

    async def warm(self, tenant_id: int, public_id: str) -> None:
        """Look until the row is in the store."""
        for _ in range(3):
            await self.finder.find(tenant_id, public_id)
            self.now_s += 2
        assert await self.rows.head(public_id)


def body(text: str = "Hello {{name}}") -> PromptBody:
    return parse_new_prompt(json.dumps({"messages": [{"role": "user", "content": text}]}).encode())


def made_up(number: int) -> str:
    return make_id(LONG_AGO_MS, (2**40 + number).to_bytes(RANDOM_BYTES))
