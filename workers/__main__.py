"""``python -m workers``: one worker process. The engine is loaded and proven first, then Celery begins to consume."""

import os
import secrets
import signal
import sys
import threading
from collections.abc import Sequence

import django
from celery.signals import worker_ready, worker_shutting_down

from domain.qos import QosClass
from tracing import logs, metrics, spans
from workers import host
from workers.app import app, config, own_queue_name, queue_name
from workers.engines.factory import make_engine
from workers.engines.port import EngineDead

log = logs.get("workers")

# Every running batch holds one thread, and has at least one sequence; the rest are for tickets that find nothing.
SPARE_THREADS = 8
EXIT_NO_ENGINE, EXIT_ENGINE_DIED = 3, 4


def main() -> int:
    """Run until told to stop; returns the exit code."""
    django.setup()
    name = config.worker_id or "worker"
    logs.configure(config.log_level, name)
    metrics.serve(config.metrics_port, config.metrics_host)
    spans.configure(config.otlp_endpoint, "sluice-worker")
    pin(config.worker_cores)
    worker_id = f"{name}-{secrets.token_hex(3)}"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    home = host.Host(config, worker_id, make_engine(config))
    try:
        home.start()
    except EngineDead as error:
        log.critical("engine_not_in_service", reason=str(error))
        return EXIT_NO_ENGINE
    worker_shutting_down.connect(lambda **_: threading.Thread(target=home.drain, daemon=True).start(), weak=False)
    worker_ready.connect(lambda sender, **_: home.announce_by(sender.event_dispatcher), weak=False)
    threading.Thread(target=_leave_when_dead, args=(home,), daemon=True).start()
    try:
        app.worker_main(celery_arguments(worker_id))
    except SystemExit:
        log.info("celery_stopped")
    died = home.wait_for_death(0)
    home.stop()
    spans.close()
    return EXIT_ENGINE_DIED if died else 0


def celery_arguments(worker_id: str) -> list[str]:
    """Command line of the Celery worker: its classes' queues, most urgent first, and its own."""
    classes = [qos_class for qos_class in QosClass if qos_class.value in config.worker_classes]
    queues = [own_queue_name(worker_id), *(queue_name(config.model_name, qos_class) for qos_class in classes)]
    return [
        *("worker", "--pool", "threads", "--concurrency", str(config.max_num_seqs + SPARE_THREADS)),
        *("--queues", ",".join(queues), "--hostname", f"{worker_id}@%h"),
        *("--without-gossip", "--without-mingle", "--loglevel", config.log_level),
    ]


def pin(cores: Sequence[str]) -> None:
    """Keep this process, and those it starts, on some CPU cores; cores that are not there are left out."""
    wanted = {int(core) for core in cores}
    there = wanted & os.sched_getaffinity(0)
    if wanted - there:
        log.warning("cores_missing", missing=sorted(wanted - there), pinned_to=sorted(there))
    if there:
        os.sched_setaffinity(0, there)


def _leave_when_dead(home: host.Host) -> None:
    """A worker without an engine must not take messages: leave, and be started anew."""
    while not home.wait_for_death(1.0):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
