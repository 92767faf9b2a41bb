"""``python -m workers.settlement``: the settlement worker."""

import os
import signal
import sys
from typing import Any

import django
from redis import Redis

from domain.config import Config
from tracing import logs, metrics


def main() -> int:
    """Settle until SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")
    django.setup()
    from django.conf import settings

    from workers.settlement.budget_watch import BudgetWatch  # all need the models, which need the line above
    from workers.settlement.keeper import Keeper
    from workers.settlement.ledger import Ledger

    config: Config = settings.SLUICE
    logs.configure(config.log_level, "settlement")
    metrics.serve(config.metrics_port)
    watch = BudgetWatch(Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2), config)
    ledger = Ledger(
        Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2), on_settled=watch.settled
    )
    keeper = Keeper(
        Redis.from_url(config.ready_url, socket_timeout=10, socket_connect_timeout=2), config.reconcile_interval_s
    )

    def stop(*_: Any) -> None:
        watch.stop()
        keeper.stop()
        ledger.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    watch.start()
    keeper.start()
    ledger.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
