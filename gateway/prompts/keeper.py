"""Making, changing and deleting stored prompts. Requests that only use them never come here.

Around each change the store is told that it is not to be believed: so no process goes on with what was for longer than
:data:`~gateway.prompts.first_level.FRESH_S`, also where one had read the old row and was slow to put it in.
"""

import secrets
from collections.abc import Callable
from typing import TypeVar

from redis.exceptions import RedisError

from caching.filters.truth import AnnouncedTooLongAgo
from caching.prompt_rows import PromptRows
from domain.prompt_id import RANDOM_BYTES, make_id
from gateway.database import Database
from gateway.errors import Refusal, refuse
from gateway.prompts.finder import PromptFinder, absent
from gateway.prompts.known_ids import KnownIds
from gateway.prompts.version import PromptText, text_of
from gateway.schema.prompts import PromptBody
from tenants import prompts as stored
from tenants.prompts import ListedPrompt, ListedVersion
from tracing import logs

log = logs.get(__name__)

AnswerT = TypeVar("AnswerT")


class PromptKeeper:
    """Does for one gateway process what tenants ask of their prompts.

    Raises (all methods): ``ApiError``: 404, no such prompt of the tenant's; 503, the store or the database does not
    answer. A change that failed may be repeated.
    """

    def __init__(self, known: KnownIds, rows: PromptRows, database: Database, finder: PromptFinder) -> None:
        self._known, self._rows, self._database, self._finder = known, rows, database, finder

    async def create(self, tenant_id: int, new: PromptBody) -> PromptText:
        """Store a prompt; also raises 400 when the tenant has as many as it may."""
        public_id = await self._new_id()
        try:
            made = await self._database.ask(
                tenant_id, lambda: stored.create_prompt(tenant_id, public_id, new.name, new.messages, new.variables)
            )
        except stored.TooManyPrompts:
            raise refuse(Refusal.TOO_MANY_PROMPTS, _too_many(stored.MAX_PROMPTS, "prompts")) from None
        return text_of(made)

    async def add_version(self, tenant_id: int, public_id: str, new: PromptBody) -> PromptText:
        """Store the next version; also raises 400 when the prompt has as many as it may."""
        try:
            made = await self._change(
                tenant_id, public_id, lambda: stored.add_version(tenant_id, public_id, new.messages, new.variables)
            )
        except stored.TooManyVersions:
            raise refuse(Refusal.TOO_MANY_PROMPTS, _too_many(stored.MAX_VERSIONS, "versions of one prompt")) from None
        if made is None:
            raise absent(public_id)
        return text_of(made)

    async def delete(self, tenant_id: int, public_id: str) -> None:
        """Delete a prompt with all versions, for good."""
        if not await self._change(tenant_id, public_id, lambda: stored.delete_prompt(tenant_id, public_id)):
            raise absent(public_id)
        await self._forget_id()

    async def listed(self, tenant_id: int, after: str | None, count: int) -> list[ListedPrompt]:
        """A tenant's prompts, the latest first, from the one after ``after`` on."""
        if after is not None:
            await self._finder.find(tenant_id, after)
        found = await self._database.ask(tenant_id, lambda: stored.list_prompts(tenant_id, after, count))
        if found is None:
            raise absent(after or "")
        return found

    async def versions(self, tenant_id: int, public_id: str) -> list[ListedVersion]:
        """All versions of a prompt, the latest first."""
        await self._finder.find(tenant_id, public_id)
        found = await self._database.ask(tenant_id, lambda: stored.list_versions(tenant_id, public_id))
        if not found:
            raise absent(public_id)
        return found

    async def _new_id(self) -> str:
        """Draw an id. The filter knows it before anybody else does: from then on it is never called absent."""
        try:
            try:
                return await self._announced_id()
            except AnnouncedTooLongAgo:  # held up on the way; the next one will not be
                return await self._announced_id()
        except (RedisError, OSError) as error:
            raise refuse(Refusal.PROMPTS_UNAVAILABLE) from error

    async def _announced_id(self) -> str:
        public_id = make_id(await self._known.announce(), secrets.token_bytes(RANDOM_BYTES))
        await self._known.add(public_id)
        return public_id

    async def _forget_id(self) -> None:
        try:
            await self._known.ask_rebuild()
        except (RedisError, OSError) as error:  # the filter says "perhaps" about it until it is made anew
            log.warning("filter_not_told_of_deletion", error=type(error).__name__)

    async def _change(self, tenant_id: int, public_id: str, change: Callable[[], AnswerT]) -> AnswerT:
        await self._finder.find(tenant_id, public_id)  # an id that is made up gets no further
        try:
            await self._rows.changing([public_id])
            changed = await self._database.ask(tenant_id, change)
        except (RedisError, OSError) as error:
            raise refuse(Refusal.PROMPTS_UNAVAILABLE) from error
        finally:
            self._finder.forget(public_id)
        try:
            await self._rows.changing([public_id])
        except (RedisError, OSError) as error:  # it still knows from before, for longer than a change takes
            log.warning("prompt_change_not_told_twice", error=type(error).__name__)
        return changed


def _too_many(most: int, what: str) -> str:
    return f"You have {most} {what}, and may not have more. Delete stored prompts that you no longer use."
