"""The data plane's ASGI handler: Django's request, URL table and responses, without its middleware and threads.

Stock Django starts a thread for each asynchronous request and runs its signals' receivers there. Nothing on the data
plane touches the ORM, so there are no connections to close and no thread is needed.
"""

import time
from contextlib import suppress

from django.core.handlers.asgi import ASGIHandler
from django.http import Http404, HttpResponse
from django.urls import ResolverMatch, get_resolver

from domain.outcome import Outcome
from gateway import journey
from gateway.body import ClientGone
from gateway.connection import Answer, DataRequest, Receive, Scope, Send
from gateway.errors import ApiError, Refusal, refuse
from gateway.runtime import runtime
from tracing import colour, logs, metrics

URLCONF = "gateway.urls"

log = logs.get(__name__)


class DataPlane(ASGIHandler):
    """Serves the addresses of one URL table; every error is OpenAI-shaped JSON."""

    def load_middleware(self, is_async: bool = False) -> None:
        """None: what the data plane checks, its views check."""

    def __init__(self, urlconf: str = URLCONF) -> None:
        super().__init__()
        self._resolver = get_resolver(urlconf)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        started_s = time.perf_counter()
        its_colour = colour.begin(scope["headers"])
        notes = journey.begin(its_colour)
        try:
            response = await self._respond(scope, receive, its_colour)
            if isinstance(response, HttpResponse):
                self._mark(response, its_colour, started_s)
                await self.send_response(response, send)
            else:
                await response.send_to(receive, send)
                notes.written()
        except ClientGone:
            notes.ended(Outcome.CANCELLED.value, 499, "client_closed")
        except ApiError as error:
            notes.ended(journey.REFUSED, error.status, error.reason or error.code or "")
            await self._send_error(error, its_colour, started_s, send)
        except Exception:
            log.exception("request_failed", path=scope["path"][:200])
            notes.ended(Outcome.FAILED.value, 500, Refusal.INTERNAL.value)
            # An answer that had begun cannot become an error: the server then closes the connection in the middle.
            with suppress(RuntimeError):
                await self._send_error(refuse(Refusal.INTERNAL), its_colour, started_s, send)
        finally:
            if notes.asks:
                here = runtime()
                here.records.give(notes.record(here.gateway_id))

    async def _respond(self, scope: Scope, receive: Receive, its_colour: colour.Colour) -> HttpResponse | Answer:
        match = self._resolve(scope["path"])
        try:
            request = DataRequest(scope, receive, its_colour)
        except UnicodeDecodeError:
            raise refuse(Refusal.INVALID_HEADER, "The query string is not UTF-8.") from None
        except ValueError:  # the only header that is taken apart here
            raise refuse(Refusal.INVALID_HEADER, "The header 'Content-Type' is malformed.") from None
        response: HttpResponse | Answer = await match.func(request, *match.args, **match.kwargs)
        return response

    def _resolve(self, path: str) -> ResolverMatch:
        try:
            return self._resolver.resolve(path)
        except Http404:
            raise refuse(
                Refusal.UNKNOWN_PATH, f"Invalid URL ({path[:200]}). /api/docs lists those that exist."
            ) from None

    async def _send_error(self, error: ApiError, its_colour: colour.Colour, started_s: float, send: Send) -> None:
        metrics.refusals.labels(error.reason or Refusal.INVALID_BODY.value).inc()
        response = HttpResponse(
            error.body(), status=error.status, content_type="application/json", headers=error.headers
        )
        self._mark(response, its_colour, started_s)
        await self.send_response(response, send)

    def _mark(self, response: HttpResponse, its_colour: colour.Colour, started_s: float) -> None:
        """Add what every answer carries."""
        response.headers["x-request-id"] = its_colour.request_id
        response.headers["traceresponse"] = its_colour.traceparent
        response.headers["openai-processing-ms"] = str(int((time.perf_counter() - started_s) * 1000))
        response.headers["openai-version"] = "2020-10-01"
        if response.status_code not in (204, 304):
            response.headers.setdefault("content-length", str(len(response.content)))
