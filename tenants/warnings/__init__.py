"""Warnings before a tenant's monthly budget ends: made once for each bound, and told until somebody has heard."""
