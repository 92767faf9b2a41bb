"""The name of a file as a tenant gave it: only ever shown, never a name on the disk."""

import unicodedata

DEFAULT = "file.jsonl"
MAX_LENGTH = 255
# Control characters, marks that turn the direction of writing, halves of characters, ends of lines and paragraphs.
_HARMFUL = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def shown_name(given: str) -> str:
    """The last part of a path, without what would harm a header, a page or a reader; ``file.jsonl`` for nothing."""
    last = given.replace("\\", "/").rsplit("/", 1)[-1]
    kept = "".join(c for c in last if unicodedata.category(c) not in _HARMFUL).strip()[:MAX_LENGTH].strip()
    return DEFAULT if kept in ("", ".", "..") else kept
