"""How much a caller may ask: the throttle is the admission.

Checking a limit first and recording the request later would let a burst through. So the step that DRF calls throttling
is one script that checks all limits, reserves, and puts the item into the ready set, or does nothing at all.
"""

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from rest_framework.views import APIView

from gateway import pipeline
from gateway.connection import beneath
from gateway.views.base import AskingView, principal_of


class Admission(BaseThrottle):
    """Admits the request and leaves its answer on the view."""

    async def allow_request(self, request: Request, view: APIView) -> bool:  # type: ignore[override]  # awaited by DataView
        """Return True.

        Raises:
            ApiError: 429 with the limit that is reached and when to come back, 503 when nothing can serve it.
        """
        assert isinstance(view, AskingView)
        principal = principal_of(request)
        view.answer = await pipeline.submit(principal, view.ask, view.body, beneath(request).colour)
        return True
