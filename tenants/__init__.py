"""Tenants, plans, keys, quotas and usage."""
