"""One process that starts, watches and stops all the others: ``manage.py up``."""
