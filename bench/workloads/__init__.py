"""Samples of public traces of LLM traffic, and the requests that become of them; README.md names source and licence."""

from pathlib import Path

FOLDER = Path(__file__).parent
BYTES_PER_TOKEN = 4
"""The simulator counts four bytes of a prompt as one token."""


def chat_body(model: str, text: str, max_tokens: int, **fields: object) -> dict[str, object]:
    """The body of a chat request whose answer has exactly ``max_tokens`` tokens on the simulator."""
    return {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": max_tokens,
        "metadata": {"sim": f"tokens={max_tokens}"},
        **fields,
    }


def filler(tag: str, tokens: int) -> str:
    """Text of ``tokens`` tokens in which ``tag`` comes again and again, so that two tags share no block of tokens."""
    size = tokens * BYTES_PER_TOKEN
    unit = f"{tag} "
    return (unit * (size // len(unit) + 1))[:size]
