"""Files: what is told of them, and the bounds of what may be asked."""

from typing import Literal

import msgspec

UPLOADED = "batch"
"""The one purpose that a client may give a file."""
PURPOSES = ("batch", "batch_output")
SHORTEST_S, LONGEST_S = 3_600, 2_592_000
"""Bounds of ``expires_after[seconds]``."""
MAX_LIMIT, MAX_LISTED, LISTED = 10_000, 1_000, 100
"""What ``limit`` may say, how many are given at most, and how many if it says nothing."""


class FileObject(msgspec.Struct):
    """A file of your tenant.

    ``bytes`` is its size. Times are in seconds of the epoch; ``expires_at`` is null for a file that is kept for good.
    ``status`` and ``status_details`` are there for older clients.
    """

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"] = "processed"
    status_details: None = None


class FileList(msgspec.Struct):
    """Some of your tenant's files; the next page comes ``after`` ``last_id``."""

    object: Literal["list"]
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(msgspec.Struct):
    """It is gone, with its contents."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]
