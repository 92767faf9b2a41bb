"""The order in which every endpoint works: authenticate, permit, throttle, answer.

DRF's view, with its dispatch made natively asynchronous: the stock one, and the usual asynchronous adapter too, run
these steps in a thread. The classes are named on each view as always in DRF.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from django.conf import settings
from django.http import HttpResponse
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from gateway import journey
from gateway.authentication import BearerAuthentication
from gateway.body import read_body
from gateway.caching_policy import read_wishes
from gateway.client_timeout import read_timeout_s
from gateway.connection import Answer, DataRequest, beneath
from gateway.errors import Refusal, refuse
from gateway.idempotency import read_key
from gateway.schema import Ask
from gateway.scopes import INFERENCE, require_scope
from tenants.snapshot import Principal


class DataView(APIView):
    """One endpoint of the data plane; every refusal leaves it as an ``ApiError``.

    Attributes:
        scope: what the key must be allowed to do; None for what every key may.
    """

    scope: str | None = None
    authentication_classes: Sequence[type[BaseAuthentication]] = (BearerAuthentication,)
    permission_classes: Sequence[type[BasePermission]] = ()
    throttle_classes: Sequence[type[BaseThrottle]] = ()

    async def dispatch(self, request: DataRequest, *args: Any, **kwargs: Any) -> HttpResponse | Answer:  # type: ignore[override]  # awaited: Django accepts a coroutine here
        """Take one request through all steps."""
        if request.method == "OPTIONS":
            return self._describe()
        handler = self._handler(request)
        self.request = asked = self.initialize_request(request, *args, **kwargs)
        self._authenticate(asked)
        await self.prepare(request)
        self._permit(asked)
        await self._throttle(asked)
        answer: HttpResponse | Answer = await handler(asked, *args, **kwargs)
        return answer

    async def prepare(self, request: DataRequest) -> None:
        """Read what permission and throttle decide on; nothing by default."""

    def _handler(self, request: DataRequest) -> Callable[..., Any]:
        name = (request.method or "").lower()
        if name not in self.http_method_names or not hasattr(self, name):
            allow = self._allow()
            raise refuse(
                Refusal.METHOD_NOT_ALLOWED,
                f"Not allowed to {request.method} here. Use {allow}.",
                headers={"allow": allow},
            )
        handler: Callable[..., Any] = getattr(self, name)
        return handler

    def _describe(self) -> HttpResponse:
        """Say which methods there are; browsers of other origins get no more than that."""
        response = HttpResponse(status=204, headers={"allow": self._allow()})
        del response.headers["content-type"]
        return response

    def _allow(self) -> str:
        return ", ".join(self.allowed_methods)

    def _authenticate(self, request: Request) -> None:
        for authenticator in self.get_authenticators():
            found = authenticator.authenticate(request)
            if found is not None:
                request.user, request.auth = found
                require_scope(found[0], self.scope)
                return

    def _permit(self, request: Request) -> None:
        for permission in self.get_permissions():
            if not permission.has_permission(request, self):
                raise refuse(Refusal.MODEL_NOT_ALLOWED)

    async def _throttle(self, request: Request) -> None:
        for throttle in self.get_throttles():
            await cast(Awaitable[bool], throttle.allow_request(request, self))


class AskingView(DataView):
    """An endpoint that asks an engine.

    Attributes:
        endpoint: "chat", "completions" or "embeddings".
        body: the client's bytes, which the engine gets as they are; with what they only name put in.
        ask: what they ask.
        answer: set by the throttle, which is the admission itself; ``post`` only hands it over.
    """

    scope = INFERENCE
    endpoint: str
    body: bytes
    ask: Ask
    answer: Answer

    async def dispatch(self, request: DataRequest, *args: Any, **kwargs: Any) -> HttpResponse | Answer:  # type: ignore[override]  # see DataView
        """Take one request through all steps; what becomes of it is recorded, also where it goes no further."""
        notes = journey.of(request.colour)
        notes.asks, notes.endpoint = request.method == "POST", self.endpoint
        return await super().dispatch(request, *args, **kwargs)

    @staticmethod
    def parse(body: bytes) -> Ask:
        """Check a body and reduce it to what it asks; each endpoint has its own.

        Raises:
            ApiError: 400, with the field at fault.
        """
        raise NotImplementedError

    async def complete(self, body: bytes) -> bytes:
        """Put in what the body only names; nothing by default.

        Raises:
            ApiError: it names something that is not there.
        """
        return body

    async def prepare(self, request: DataRequest) -> None:
        """Read and check the body; only a caller with a key gets this far."""
        notes, headers = journey.of(request.colour), request.scope["headers"]
        notes.tenant = principal_of(self.request).tenant
        _check_content_type(request.content_type)
        key, wishes = read_key(headers), read_wishes(headers)
        body = await read_body(request.receive, headers, settings.SLUICE.max_body_bytes)
        self.body = await self.complete(body)
        ask = self.parse(self.body)
        wait_s = None if ask.stream else read_timeout_s(headers)
        self.ask = replace(ask, read_timeout_s=wait_s, idempotency_key=key, wishes=wishes)
        notes.stream = ask.stream

    def rename(self, model: str) -> None:
        """Go on with the name under which engines serve the model."""
        journey.of(beneath(self.request).colour).model = model
        if model != self.ask.model:
            self.ask = replace(self.ask, model=model)


def _check_content_type(content_type: str | None) -> None:
    """Clients that say nothing, or say what their tool always says, are taken at their word that it is JSON."""
    if content_type and content_type.startswith("multipart/"):
        raise refuse(Refusal.UNSUPPORTED_MEDIA_TYPE)


def principal_of(request: Request) -> Principal:
    """Who calls; every view of the data plane that needs one has authenticated."""
    principal: object = request.user
    assert isinstance(principal, Principal)
    return principal
