"""A file whose contents are there and whose row is being written: in the end there are both, or neither."""

import threading
from contextlib import suppress
from datetime import timedelta

from tenants.files import rows
from tenants.files.disk import FileDisk
from tenants.models import StoredFile
from tenants.models.stored_file import BATCH


class Abandoned(Exception):
    """Nobody waits for the row any more."""


class NewFile:
    """One file. Every method blocks; whoever waits for :meth:`write` may give up before it is done, or begun."""

    def __init__(
        self, disk: FileDisk, tenant_id: int, file_id: str, filename: str, size_bytes: int, lives: timedelta
    ) -> None:
        self._disk, self._tenant_id, self._file_id = disk, tenant_id, file_id
        self._facts = (filename, BATCH, size_bytes, lives)
        self._lock = threading.Lock()
        self._begun = self._abandoned = False

    def write(self) -> StoredFile:
        """Write the row; if that fails, remove the contents.

        Raises:
            NoFilesAllowed, TooMuchStored: it does not fit.
            DatabaseError: the database does not take it.
            Abandoned: nobody waits for it any more.
        """
        with self._lock:
            if self._abandoned:
                raise Abandoned
            self._begun = True
        try:
            row = rows.add_file(self._tenant_id, self._file_id, *self._facts)
        except BaseException:
            self._remove()
            raise
        if self._abandoned:  # its client was told that it is not kept
            self._undo()
            raise Abandoned
        return row

    def abandon(self) -> None:
        """Nobody waits any more: what is being written is removed when it is done, anything else now."""
        with self._lock:
            self._abandoned = True
            begun = self._begun
        if not begun:
            self._remove()

    def _undo(self) -> None:
        with suppress(rows.FileInUse):  # a client that found it in a list was faster
            if rows.delete_file(self._tenant_id, self._file_id):
                self._remove()

    def _remove(self) -> None:
        with suppress(OSError):  # whoever tidies up finds it
            self._disk.remove(self._file_id)
