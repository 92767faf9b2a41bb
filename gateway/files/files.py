"""Tenants' files, as the rest of a gateway process sees them."""

import asyncio
import errno
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from datetime import timedelta
from functools import partial
from typing import TypeVar

from django.core.exceptions import ObjectDoesNotExist

from domain.config import Config
from gateway.database import Database
from gateway.errors import ApiError, Refusal, refuse
from gateway.files.form import UploadForm
from gateway.files.new_file import NewFile
from gateway.files.opened import OpenedFile
from gateway.files.upload import FORM_BYTES, UploadBody
from tenants.files import rows
from tenants.files.disk import FileDisk, make_file_id
from tenants.files.rows import MIB
from tenants.models import StoredFile
from tracing import logs

log = logs.get(__name__)

AnswerT = TypeVar("AnswerT")

MAX_EACH, MAX_WAITING = 8, 64
"""Questions to the database at once, of one tenant and of all."""
MAX_UPLOADS_EACH, MAX_UPLOADS = 4, 16
"""Uploads under way in this process, of one tenant and of all: each may take as much of the disk as a file may."""
THREADS = 4
"""They wait for the disk; a slow one is not to hold up what else runs in threads."""


class Files:
    """Made once a process.

    Raises (all methods): ``ApiError``: 404, the tenant has no such file; 503, the disk or the database does not answer.
    """

    def __init__(self, config: Config) -> None:
        self._disk = FileDisk(config.files_path)
        self._database = Database(MAX_EACH, MAX_WAITING, Refusal.FILES_UNAVAILABLE)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="files")
        self._uploads: Counter[int] = Counter()
        self._max_mib, self._lives = config.max_file_mib, timedelta(days=config.files_days)

    async def receive(self, tenant_id: int, body: UploadBody) -> StoredFile:
        """Read an upload, keep its file and write its row.

        Raises:
            ApiError: 400, the form is wrong or there is no room; 403, the plan keeps no files; 408, too slow; 413, too
                large; 415, no form; 503, also where too many uploads are under way.
            ClientGone: the client left; nothing is kept.
        """
        try:
            with self._slot(tenant_id):
                return await self._receive(tenant_id, body)
        except ApiError as error:
            raise await body.refused(error, self._max_mib * MIB + FORM_BYTES) from None

    async def find(self, tenant_id: int, file_id: str) -> StoredFile:
        """A file of the tenant's."""
        self._check(file_id)
        found = await self._database.ask(tenant_id, lambda: rows.find_file(tenant_id, file_id))
        if found is None:
            raise absent(file_id)
        return found

    async def listed(
        self, tenant_id: int, *, after: str | None, count: int, purpose: str | None, newest_first: bool
    ) -> list[StoredFile]:
        """The tenant's files from the one after ``after`` on, at most ``count``."""
        if after is not None:
            self._check(after)
        found = await self._database.ask(
            tenant_id,
            lambda: rows.list_files(tenant_id, after=after, count=count, purpose=purpose, newest_first=newest_first),
        )
        if found is None:
            raise absent(after or "")
        return found

    async def delete(self, tenant_id: int, file_id: str) -> None:
        """Delete a file for good; also raises 409 while a batch reads it."""
        self._check(file_id)
        try:
            is_gone = await self._database.ask(tenant_id, lambda: rows.delete_file(tenant_id, file_id))
        except rows.FileInUse as error:
            message = (
                f"The batch '{error.job_id}' has not ended and reads this file. Cancel it first, or wait for its end."
            )
            raise refuse(Refusal.FILE_IN_USE, message) from None
        except ObjectDoesNotExist:  # the tenant itself was deleted
            is_gone = False
        if not is_gone:
            raise absent(file_id)
        await self._in_thread(lambda: self._disk.remove(file_id))

    async def open(self, tenant_id: int, file_id: str) -> OpenedFile:
        """Open a file's contents, to be read in pieces and closed."""
        row = await self.find(tenant_id, file_id)
        path = self._disk.path(file_id)
        try:
            return await self._in_thread(lambda: OpenedFile(path, row, self._threads))
        except ApiError:
            log.error("file_without_contents", file_id=file_id)
            raise

    def close(self) -> None:
        """Begin nothing more; what is under way ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._database.close()

    # --- an upload --------------------------------------------------------------------------------------------------

    @contextmanager
    def _slot(self, tenant_id: int) -> Iterator[None]:
        if self._uploads[tenant_id] >= MAX_UPLOADS_EACH:
            raise refuse(
                Refusal.FILES_UNAVAILABLE, f"{MAX_UPLOADS_EACH} of your uploads are under way. Wait for one to end."
            )
        if self._uploads.total() >= MAX_UPLOADS:
            raise refuse(Refusal.FILES_UNAVAILABLE, "Too many uploads are under way. Come back shortly.")
        self._uploads[tenant_id] += 1
        try:
            yield
        finally:
            self._uploads -= Counter([tenant_id])

    async def _receive(self, tenant_id: int, body: UploadBody) -> StoredFile:
        boundary = body.boundary()
        most_bytes, too_large = await self._allowance(tenant_id)
        form = UploadForm(boundary, self._disk.new_part, most_bytes, too_large)
        try:
            async with aclosing(body.pieces(most_bytes + FORM_BYTES, too_large)) as pieces:
                async for piece in pieces:
                    await self._in_thread(partial(form.feed, piece))
            form.end()
            return await self._keep(tenant_id, form)
        finally:
            await self._clean_up(form.discard)

    async def _allowance(self, tenant_id: int) -> tuple[int, Callable[[], ApiError]]:
        """How many bytes a file may have, and the error for a larger one."""
        try:
            room = await self._database.ask(tenant_id, lambda: rows.room_for(tenant_id))
        except (rows.NoFilesAllowed, ObjectDoesNotExist):
            raise refuse(Refusal.FILES_NOT_ALLOWED) from None
        except rows.TooMuchStored as error:
            raise _no_room(error) from None
        if room < self._max_mib * MIB:
            return room, lambda: refuse(
                Refusal.TOO_MUCH_STORED,
                f"The file does not fit: your plan has room for {_mib(room)} MiB more. Delete files that you no longer "
                "need.",
                param="file",
            )
        return self._max_mib * MIB, lambda: refuse(
            Refusal.BODY_TOO_LARGE, f"The file is larger than {self._max_mib} MiB. Send it in several.", param="file"
        )

    async def _keep(self, tenant_id: int, form: UploadForm) -> StoredFile:
        file_id, part = make_file_id(), form.part
        assert part is not None, "a form that is whole has a file"
        size = await self._in_thread(lambda: self._disk.keep(part, file_id))
        new = NewFile(self._disk, tenant_id, file_id, form.filename, size, form.lives or self._lives)
        try:
            return await self._database.ask(tenant_id, new.write)
        except (rows.NoFilesAllowed, ObjectDoesNotExist):
            raise refuse(Refusal.FILES_NOT_ALLOWED) from None
        except rows.TooMuchStored as error:
            raise _no_room(error) from None
        except BaseException:
            await self._clean_up(new.abandon)
            raise

    # --- what blocks --------------------------------------------------------------------------------------------------

    async def _in_thread(self, work: Callable[[], AnswerT]) -> AnswerT:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except OSError as error:
            # Its text would name a path; which of the disk's troubles it is says enough.
            log.error("files_not_reached", error=errno.errorcode.get(error.errno or 0, type(error).__name__))
            raise refuse(Refusal.FILES_UNAVAILABLE) from None

    async def _clean_up(self, work: Callable[[], None]) -> None:
        """Leave nothing behind, also where the process is about to end and its threads take no more."""
        try:
            await self._in_thread(work)
        except RuntimeError:
            work()

    def _check(self, file_id: str) -> None:
        """An id of another form is nobody's: the database need not be asked."""
        try:
            self._disk.path(file_id)
        except ValueError:
            raise absent(file_id) from None


def absent(file_id: str) -> ApiError:
    """The one answer about an id that stands for nothing of the caller's, whoever's it may be."""
    return refuse(Refusal.FILE_NOT_FOUND, f"No file with id '{file_id[:64]}' found.", param="id")


def _no_room(error: rows.TooMuchStored) -> ApiError:
    taken, most = _mib(error.kept_bytes), _mib(error.most_bytes)
    return refuse(
        Refusal.TOO_MUCH_STORED,
        f"There is no room for the file: yours take {taken} MiB of {most} MiB, and there may be {rows.MAX_FILES}. "
        "Delete files that you no longer need.",
        param="file",
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.1f}".removesuffix(".0")
