"""POST /v1/completions."""

from rest_framework.request import Request

from gateway.connection import Answer
from gateway.openapi import completions_schema
from gateway.permissions import MayUseModel
from gateway.schema import parse_completions
from gateway.throttling import Admission
from gateway.views.base import AskingView


class Completions(AskingView):
    """Continue a text."""

    endpoint = "completions"
    permission_classes = (MayUseModel,)
    throttle_classes = (Admission,)
    parse = staticmethod(parse_completions)

    @completions_schema
    async def post(self, request: Request) -> Answer:
        """Go on from a text or from token ids, as one JSON object or as a stream of events."""
        return self.answer
