"""Bulk jobs in the database: which there are, who works on what, and how far they have come."""
