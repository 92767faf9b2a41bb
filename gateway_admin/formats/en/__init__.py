"""Dates and numbers of one language."""
