"""Stored prompts, as the rest of a gateway process sees them."""

from typing import TYPE_CHECKING

from caching.prompt_rows import PromptRows
from gateway.database import Database
from gateway.errors import Refusal
from gateway.prompts.expansion import expanded
from gateway.prompts.finder import PromptFinder
from gateway.prompts.keeper import PromptKeeper
from gateway.prompts.known_ids import KnownIds
from gateway.prompts.version import PromptText
from gateway.prompts.warm_up import WarmUp
from gateway.schema.prompt_use import PromptUse
from tenants.snapshot import Principal

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from gateway.runtime import Runtime

MAX_EACH, MAX_WAITING = 32, 128
"""Questions to the database at once, of one tenant and of all. They are short, and on connections of their own."""


class Prompts:
    """Made once a process.

    Attributes:
        finder: finds them.
        keeper: makes, changes and deletes them.
    """

    def __init__(self, runtime: "Runtime", known: KnownIds, redis: "Redis") -> None:
        self._database = Database(MAX_EACH, MAX_WAITING, Refusal.PROMPTS_UNAVAILABLE)
        rows = PromptRows(redis)
        self._hot_keys = runtime.hot_keys
        limit, is_hot = runtime.config.unknown_prompts_per_s, self._hot_keys.is_hot
        self.finder = PromptFinder(known, rows, self._database, limit, is_hot=is_hot)
        self.keeper = PromptKeeper(known, rows, self._database, self.finder)
        self._warm_up = WarmUp(runtime)
        self._max_bytes = runtime.config.max_body_bytes
        self._hot_keys.tell(self.finder.local.pin)

    async def expand(self, principal: Principal, body: bytes, use: PromptUse) -> tuple[bytes, PromptText]:
        """Put the stored prompt that a chat names into its body.

        Returns:
            The body to go on with, and the prompt.

        Raises:
            ApiError: 400, 404, 413, 429 or 503, see :func:`gateway.prompts.expansion.expanded` and
                :meth:`PromptFinder.find <gateway.prompts.finder.PromptFinder.find>`.
        """
        prompt = await self.finder.find(principal.tenant_id, use.id, use.number)
        return expanded(body, use, prompt, self._max_bytes), prompt

    def used(self, principal: Principal, prompt: PromptText, model: str) -> None:
        """A valid request to ``model`` uses the prompt: count it; if it kept being missed, warm engines up as well."""
        self._hot_keys.count("prompt", prompt.public_id.encode(), principal.tenant_id, model)
        if prompt.public_id in self.finder.due:
            self.finder.due.discard(prompt.public_id)
            self._warm_up.later(principal, prompt, model)

    async def forget_tenant(self, tenant_id: int) -> None:
        """Hold nothing of a tenant's in this process; what the store has of it ends by itself."""
        self.finder.local.drop_tenant(tenant_id)

    def close(self) -> None:
        """Ask the database nothing more."""
        self._database.close()
