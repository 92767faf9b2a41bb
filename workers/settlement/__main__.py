"""``python -m workers.settlement``: the settlement worker."""

import os
import signal
import sys
from typing import Any

import django
from redis import Redis

from domain.config import Config
from tracing import logs, metrics, spans


def main() -> int:
    """Settle until SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")
    django.setup()
    from django.conf import settings

    from workers.settlement.budget_watch import BudgetWatch  # all need the models, which need the line above
    from workers.settlement.keeper import Keeper
    from workers.settlement.ledger import Ledger
    from workers.settlement.records import RecordKeeper
    from workers.settlement.steps import StepKeeper

    config: Config = settings.SLUICE
    logs.configure(config.log_level, "settlement")
    metrics.serve(config.metrics_port, config.metrics_host)
    spans.configure(config.otlp_endpoint, "sluice-gateway")
    watch = BudgetWatch(Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2), config)
    records = RecordKeeper(Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2), config)
    ledger = Ledger(
        Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2),
        on_settled=watch.settled,
        on_lost=records.lost,
    )
    keeper = Keeper(
        Redis.from_url(config.ready_url, socket_timeout=10, socket_connect_timeout=2), config.reconcile_interval_s
    )
    steps = StepKeeper(Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2), config)

    def stop(*_: Any) -> None:
        steps.stop()
        records.stop()
        watch.stop()
        keeper.stop()
        ledger.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    watch.start()
    keeper.start()
    records.start()
    steps.start()
    ledger.run()
    spans.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
