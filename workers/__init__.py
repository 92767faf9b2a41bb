"""The Celery side: ready set, claims, engines, token stream, settlement."""
