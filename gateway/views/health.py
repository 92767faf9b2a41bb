"""GET /livez, /readyz and /metrics: for probes and Prometheus; no key is needed."""

from django.http import HttpResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from rest_framework.request import Request

from gateway.openapi import livez_schema, metrics_schema, readyz_schema
from gateway.readiness import readiness
from gateway.schema.answers import LiveReport, ReadyReport
from gateway.views.base import DataView
from gateway.views.json import json_response


class OpenView(DataView):
    """An endpoint for machines of the same operator."""

    authentication_classes = ()


class Livez(OpenView):
    """The process lives."""

    @livez_schema
    async def get(self, request: Request) -> HttpResponse:
        """Always 200: restarting this process would help nothing that ``/readyz`` complains about."""
        return json_response(LiveReport("alive"))


class Readyz(OpenView):
    """The process can serve its model."""

    @readyz_schema
    async def get(self, request: Request) -> HttpResponse:
        """200 once an engine of the configured model is in service; else 503 with the reasons."""
        now = readiness()
        if now.ready:
            return json_response(ReadyReport("ready", now.reasons, now.engines))
        response = json_response(ReadyReport("not ready", now.reasons, now.engines), 503)
        response.headers["retry-after"] = "1"
        return response


class Metrics(OpenView):
    """Figures of this process."""

    @metrics_schema
    async def get(self, request: Request) -> HttpResponse:
        """Figures in Prometheus' text format."""
        return HttpResponse(generate_latest(), headers={"content-type": CONTENT_TYPE_LATEST})
