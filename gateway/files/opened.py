"""A file that is being read: in pieces, in a thread."""

import asyncio
import os
from concurrent.futures import Executor
from pathlib import Path
from typing import BinaryIO

from tenants.models import StoredFile


class OpenedFile:
    """One file, open until it is closed. It can be read to its end also if it is deleted meanwhile.

    Attributes:
        size: its bytes.
        filename: its name as its tenant gave it.
    """

    def __init__(self, path: Path, row: StoredFile, threads: Executor) -> None:
        """Open it; blocks.

        Raises:
            OSError: its contents are not there, or not all of them.
        """
        self.size, self.filename = row.size_bytes, row.filename
        self._threads = threads
        # Without a buffer: pieces are large.
        self._contents: BinaryIO = path.open("rb", buffering=0)
        if os.fstat(self._contents.fileno()).st_size != self.size:
            self._contents.close()
            raise OSError("its size is not the one of its row")

    async def read(self, most_bytes: int) -> bytes:
        """The next piece; b"" at the end.

        Raises:
            OSError: the disk does not give it.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._contents.read, most_bytes)

    def close(self) -> None:
        """Read no more; nothing is waited for, since nothing was written."""
        self._contents.close()
