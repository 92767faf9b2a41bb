"""Stored prompts: what tenants keep here and name in their requests, found without asking the database in vain."""
