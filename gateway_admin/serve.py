"""Run one gateway process: ``python -m gateway_admin.serve --fd N`` or ``--host H --port P``."""

import argparse
import gc
import os
import signal
import socket
import sys
from typing import Literal

import uvicorn
from django.conf import settings

from gateway_admin.http_protocol import BoundedProtocol
from tracing import logs, metrics

BACKLOG = 2048
KEEP_ALIVE_S = 75
GRACEFUL_SHUTDOWN_S = 10


def main() -> None:
    """Serve until SIGTERM, then finish what runs for up to 10 s."""
    options = _options()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")
    from gateway_admin.asgi import application

    logs.configure(settings.SLUICE.log_level, settings.SLUICE.gateway_id or "gateway")
    # The public /metrics is answered by whichever gateway accepts; this port is this one's alone.
    metrics.serve(settings.SLUICE.metrics_port, settings.SLUICE.metrics_host)
    # What was imported lives as long as the process: the collector need not look at it again.
    gc.collect()
    gc.freeze()
    # uvicorn sends itself the signal again once it has shut down in order; that is an end, not an accident.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    uvicorn.Server(server_config(application)).run(sockets=[_listener(options)])


def server_config(application: object, lifespan: Literal["on", "off"] = "on") -> uvicorn.Config:
    """How the gateway is served, the listening socket apart."""
    return uvicorn.Config(
        application,  # type: ignore[arg-type]  # uvicorn wants its own spelling of an ASGI application
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        lifespan=lifespan,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_S,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gateway_admin.serve", description=__doc__)
    parser.add_argument("--fd", type=int, help="an inherited listening socket; instead of --host and --port")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    return parser.parse_args()


def _listener(options: argparse.Namespace) -> socket.socket:
    if options.fd is not None:
        return socket.socket(fileno=options.fd)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    return socket.create_server((options.host, options.port), family=family, backlog=BACKLOG)


if __name__ == "__main__":
    main()
