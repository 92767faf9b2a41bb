"""The guess for a model whose rule is not known (yet)."""

# About 4 bytes a token, and a few tokens of chat template. Settled exactly at the end.
BYTES_PER_TOKEN = 4
TEMPLATE_TOKENS = 8


def estimate(prompt_bytes: int) -> int:
    """Tokens of a prompt of so many bytes, about."""
    return prompt_bytes // BYTES_PER_TOKEN + TEMPLATE_TOKENS
