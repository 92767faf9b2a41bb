"""GET /livez, /readyz and /metrics: for probes and Prometheus; no key is needed."""

from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from rest_framework.request import Request

from gateway.readiness import readiness
from gateway.views.base import DataView
from gateway.views.json import json_response


class OpenView(DataView):
    """An endpoint for machines of the same operator."""

    authentication_classes = ()


class Livez(OpenView):
    """The process lives."""

    async def get(self, request: Request) -> HttpResponse:
        """Always 200: restarting this process would help nothing that ``/readyz`` complains about."""
        return json_response({"status": "alive"})


class Readyz(OpenView):
    """The process can serve its model."""

    async def get(self, request: Request) -> HttpResponse:
        """200 once an engine of the configured model is in service; else 503 with the reasons."""
        now = readiness()
        state = {
            "status": "ready" if now.ready else "not ready",
            "reasons": now.reasons,
            "engines": now.engines,
        }
        response = json_response(state, 200 if now.ready else 503)
        if not now.ready:
            response.headers["retry-after"] = "1"
        return response


class Metrics(OpenView):
    """Figures of this process."""

    async def get(self, request: Request) -> HttpResponse:
        """In Prometheus' text format."""
        return HttpResponse(generate_latest(), headers={"content-type": CONTENT_TYPE_LATEST})
