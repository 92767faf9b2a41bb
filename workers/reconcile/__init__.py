"""Reconciliation: proves that what was counted in several places is the same, and puts it right."""
