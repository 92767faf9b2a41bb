"""Filters: what surely does not exist, and what keeps being missed, told from memory alone."""

from caching.filters.existence import Existence

__all__ = ["Existence"]
