"""Stop a running instance: ``manage.py down``."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from gateway_admin.supervisor.lock import holder

# The stages of an orderly stop have 38 s together.
_ORDERLY_S = 50.0
_HURRIED_S = 10.0
_POLL_S = 0.1


class Command(BaseCommand):
    """Asks the supervisor of a data directory to stop, and waits until it is gone."""

    help = "Stop the instance that runs on a data directory."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--data-dir", type=Path, help="where it runs (.sluice)")

    def handle(self, *args: Any, **given: Any) -> None:
        data_dir: Path = (given["data_dir"] or settings.SLUICE.data_dir).expanduser().absolute()
        pid = holder(data_dir)
        if pid is None:
            self.stdout.write(f"Nothing runs on {data_dir}.")
            return
        # The second request means "at once"; then the kernel ends it, and its children with it.
        for number, wait_s in ((signal.SIGTERM, _ORDERLY_S), (signal.SIGTERM, _HURRIED_S), (signal.SIGKILL, 5.0)):
            if _stop(data_dir, number, wait_s):
                self.stdout.write(f"Stopped (pid {pid}).")
                return
        raise CommandError(f"Process {pid} on {data_dir} does not end.")


def _stop(data_dir: Path, number: int, wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    is_asked = False
    while (pid := holder(data_dir)) is not None:
        if pid and not is_asked:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            is_asked = True
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_S)
    return True
