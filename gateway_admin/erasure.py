"""Erasing all that was kept of a tenant: database, store, gateways, and the disks of their machines.

The order matters. First the tenant gets a new cache salt: from then on nothing that was kept before can be found. Then
every gateway forgets what it keeps itself, and only then the store is emptied, so that nothing comes back from a
gateway. What a request that was under way keeps after that has a name under the old salt, which nobody can find;
gateways remove it too when no such request can run any more (:mod:`gateway.erased`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from redis.asyncio import Redis

from caching.filters.truth import FilterTruth
from caching.hot.hot_store import ASKED, LIST
from caching.prompt_rows import PromptRows
from gateway.filters import PROMPTS
from tenants.erase import ErasedRows, erase_rows, prompt_ids
from tenants.files.disk import FileDisk
from tenants.salt import salt_mark
from workers.erasure import erase_kept, rewrite_log, wait_for_gateways

T = TypeVar("T")

_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was erased, and what is not sure.

    Attributes:
        answers: kept answers that the store had when its turn came; gateways may have removed others before.
        prompts: stored prompts; ``hot_keys`` rows of the whitelist.
        gateways: how many live; ``forgotten`` of them have said that they keep nothing any more.
        log_is_clean: the store's file on the disk tells nothing of what was.
        files: files of the tenant, with their contents; ``jobs`` batches, with their results.
        files_left: of these files, those whose contents could not be removed. A bulk process that reaches the disk
            removes them within some ten minutes of their having been there for an hour.
    """

    answers: int
    prompts: int
    hot_keys: int
    gateways: int
    forgotten: int
    log_is_clean: bool
    files: int = 0
    jobs: int = 0
    files_left: int = 0

    @property
    def is_complete(self) -> bool:
        """Everything that could be reached is gone."""
        return self.forgotten == self.gateways and self.log_is_clean and not self.files_left


def erase(
    store_url: str,
    tenant_id: int,
    *,
    prompts: bool,
    gateways_s: float,
    log_s: float,
    files_path: Path | None = None,
) -> Erasure:
    """Erase what was kept of a tenant; to be repeated if it raises or is not complete.

    Args:
        store_url: of the ready sets.
        tenant_id: whose.
        prompts: its stored prompts too.
        files_path: its files and batches too, whose contents lie there; None to keep them.
        gateways_s: how long to wait for gateways; ``log_s`` for the store's file.

    Raises:
        Tenant.DoesNotExist: no such tenant.
        redis.exceptions.RedisError, OSError: the store does not answer. The new salt may be set already.
        django.db.DatabaseError, django.db.InterfaceError: the database does not answer.
    """
    ids = prompt_ids(tenant_id) if prompts else []
    _ask(store_url, lambda redis: PromptRows(redis).changing(ids))
    rows = erase_rows(tenant_id, prompts=prompts, files=files_path is not None)
    files_left = 0 if files_path is None else _remove_contents(rows, FileDisk(files_path))
    mark = salt_mark(rows.salt)

    async def in_store(redis: Redis) -> Erasure:
        await _forget_rows(redis, rows.prompt_ids)
        forgotten, gateways = await wait_for_gateways(redis, tenant_id, mark, gateways_s)
        answers = await erase_kept(redis, tenant_id)
        log_is_clean = await rewrite_log(redis, log_s)
        return Erasure(
            *(answers, len(rows.prompt_ids), rows.hot_keys, gateways, forgotten, log_is_clean),
            *(len(rows.file_ids), len(rows.job_ids), files_left),
        )

    return _ask(store_url, in_store)


def _remove_contents(rows: ErasedRows, disk: FileDisk) -> int:
    """Remove what erased files and batches have on the disk; return how many files could not be removed.

    A bulk process that writes at this very moment finds the row gone, and removes what it wrote itself.
    """
    left = 0
    for file_id in rows.file_ids:
        try:
            disk.remove(file_id)
        except OSError:
            left += 1
    for job_id in rows.job_ids:
        disk.remove_job(job_id)
    return left


async def _forget_rows(redis: Redis, erased_ids: Sequence[str]) -> None:
    """Have the copies of rows made anew: those of prompts, the filter of their ids, the list of hot keys."""
    await PromptRows(redis).changing(erased_ids)
    if erased_ids:
        await FilterTruth(redis, PROMPTS).ask_rebuild()
    await redis.hincrby(LIST, ASKED, 1)


def _ask(store_url: str, work: Callable[[Redis], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with Redis.from_url(store_url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S) as redis:
            return await work(redis)

    return asyncio.run(ask())
