"""How the simulated model sees a prompt: as bytes, four to a token."""

from collections.abc import Iterable, Sequence

BYTES_PER_TOKEN = 4

Turn = tuple[str, str, Sequence[str]]


def chat_prompt(turns: Iterable[Turn], tools: bytes = b"") -> bytes:
    """The bytes of a chat.

    Args:
        turns: of each message the role, the content and the texts of what it calls (names and arguments).
        tools: the definitions of tools as JSON, b"" for none.
    """
    parts = [tools]
    for role, content, calls in turns:
        parts += (f"<|{role}|>".encode(), content.encode(), *(text.encode() for text in calls))
    parts.append(b"<|assistant|>")
    return b"".join(parts)


def count_tokens(size: int) -> int:
    """Tokens of ``size`` bytes; an empty prompt is one token."""
    return max(1, -(-size // BYTES_PER_TOKEN))
