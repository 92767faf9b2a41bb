"""``python -m gateway.bulk``: one bulk process. It begins to consume once its runtime knows keys and engines."""

import os
import signal
import sys
import threading

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")

import django
from celery.signals import worker_shutting_down

from tracing import logs, metrics
from workers.app import app, config
from workers.bulk import QUEUE

log = logs.get("bulk")

MAX_TASKS = 64
"""Slices under way, and checks and ends of jobs beside them. Each is a thread that waits."""


def main() -> int:
    """Run until told to stop; returns the exit code."""
    django.setup()
    # Only now: they need the settings.
    from gateway.bulk import tasks  # noqa: F401 - registers the tasks
    from gateway.bulk.host import Host

    name = config.gateway_id or "bulk"
    logs.configure(config.log_level, name)
    metrics.serve(config.metrics_port, config.metrics_host)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    home = Host(config)
    home.start()
    worker_shutting_down.connect(
        lambda **_: threading.Thread(target=home.leave_slices, daemon=True).start(), weak=False
    )
    try:
        app.worker_main(
            [
                *("worker", "--pool", "threads", "--concurrency", str(MAX_TASKS)),
                *("--queues", QUEUE, "--hostname", f"{name}@%h"),
                *("--without-gossip", "--without-mingle", "--loglevel", config.log_level),
            ]
        )
    except SystemExit:
        log.info("celery_stopped")
    home.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
