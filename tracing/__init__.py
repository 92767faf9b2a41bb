"""Trace colouring: the ids that travel with a request, logs and metrics."""
