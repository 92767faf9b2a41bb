"""POST /v1/embeddings."""

from rest_framework.request import Request

from gateway.connection import Answer
from gateway.openapi import embeddings_schema
from gateway.permissions import MayUseModel
from gateway.schema import parse_embeddings
from gateway.throttling import Admission
from gateway.views.base import AskingView


class Embeddings(AskingView):
    """Turn texts into vectors."""

    endpoint = "embeddings"
    permission_classes = (MayUseModel,)
    throttle_classes = (Admission,)
    parse = staticmethod(parse_embeddings)

    @embeddings_schema
    async def post(self, request: Request) -> Answer:
        """Turn texts or token ids into vectors, one for each."""
        return self.answer
