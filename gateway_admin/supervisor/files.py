"""Files that only their owner may read."""

import os
import secrets
from pathlib import Path

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700


def make_private_directory(path: Path) -> bool:
    """Create ``path`` (mode 0700) with its parents, or tighten it; return whether it is new.

    Raises:
        OSError: it cannot be created, or it belongs to somebody else.
    """
    is_new = not path.exists()
    path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
    path.chmod(PRIVATE_DIRECTORY)
    return is_new


def write_private(path: Path, text: str) -> None:
    """Put ``text`` into ``path`` (mode 0600) atomically: a reader sees the old text or the new.

    Raises:
        OSError: the directory cannot be written.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
