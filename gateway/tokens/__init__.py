"""Prompt tokens before admission, counted as the model itself will count them."""

from gateway.tokens.registry import TokenCounts

__all__ = ["TokenCounts"]
