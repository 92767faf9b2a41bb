"""The ASGI application: the data plane on its own lean handler, everything else on Django's."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_admin.settings")
django.setup()

from django.core.handlers.asgi import ASGIHandler  # noqa: E402 - needs the apps

from gateway.connection import Receive, Scope, Send  # noqa: E402
from gateway.handler import DataPlane  # noqa: E402
from gateway.runtime import runtime  # noqa: E402

_PROBES = frozenset({"/livez", "/readyz", "/metrics", "/v1"})


class Application:
    """Sends each connection to the side it belongs to."""

    def __init__(self) -> None:
        self._data_plane = DataPlane()
        self._operators = ASGIHandler()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or the life of the process."""
        if scope["type"] == "http":
            path = scope["path"]
            is_data = path.startswith("/v1/") or path in _PROBES
            await (self._data_plane if is_data else self._operators)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await _live(receive, send)
        else:
            await send({"type": "websocket.close", "code": 1000})


async def _live(receive: Receive, send: Send) -> None:
    """Start the runtime before the first request and stop it after the last."""
    await receive()
    try:
        await runtime().start()
    except Exception as error:
        await send({"type": "lifespan.startup.failed", "message": f"{type(error).__name__}: {error}"})
        raise
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await runtime().stop()
    await send({"type": "lifespan.shutdown.complete"})


application = Application()
