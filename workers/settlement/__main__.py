"""``python -m workers.settlement``: the settlement worker."""

import os
import signal
import sys

import django
from redis import Redis

from domain.config import Config
from tracing import logs, metrics


def main() -> int:
    """Settle until SIGTERM."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")
    django.setup()
    from django.conf import settings

    from workers.settlement.ledger import Ledger  # needs the models, which need the line above

    config: Config = settings.SLUICE
    logs.configure(config.log_level, "settlement")
    metrics.serve(config.metrics_port)
    ledger = Ledger(Redis.from_url(config.ready_url, socket_timeout=5, socket_connect_timeout=2))
    signal.signal(signal.SIGTERM, ledger.stop)
    signal.signal(signal.SIGINT, ledger.stop)
    ledger.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
