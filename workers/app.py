"""The Celery application: one queue for each model and class, and what a ticket may cost."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")

from celery import Celery
from django.conf import settings

from domain.config import Config
from domain.qos import QosClass

config: Config = settings.SLUICE


def queue_name(model: str, qos_class: QosClass) -> str:
    """The Celery queue of one model and class."""
    return f"sluice.{model}.{qos_class.value}"


def own_queue_name(worker_id: str) -> str:
    """The queue that only this worker listens to: for a ticket that is passed on."""
    return f"sluice.worker.{worker_id}"


app = Celery(
    "sluice",
    broker=config.broker_url,
    backend=f"workers.results:ChordResults+{config.result_url}",
    include=["workers.tasks", "workers.slices"],
)
app.conf.update(
    task_serializer="json",
    accept_content=["json"],
    task_ignore_result=True,
    # A ticket is only a doorbell, so a lost one loses nothing: acknowledge early, never redeliver.
    task_acks_late=False,
    task_publish_retry=False,
    # Only chords of background slices keep results, and longer than the longest slice runs.
    result_expires=3600,
    result_chord_join_timeout=10,
    worker_prefetch_multiplier=1,
    worker_send_task_events=True,
    worker_enable_remote_control=True,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "queue_order_strategy": "priority",
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "health_check_interval": 10,
    },
    task_create_missing_queues=True,
)
