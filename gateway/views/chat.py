"""POST /v1/chat/completions."""

from rest_framework.request import Request

from gateway.connection import Answer
from gateway.openapi import chat_schema
from gateway.permissions import MayUseModel
from gateway.schema import parse_chat
from gateway.throttling import Admission
from gateway.views.base import AskingView


class ChatCompletions(AskingView):
    """Answer a chat."""

    permission_classes = (MayUseModel,)
    throttle_classes = (Admission,)
    parse = staticmethod(parse_chat)

    @chat_schema
    async def post(self, request: Request) -> Answer:
        """Answer a chat, as one JSON object or as a stream of events."""
        return self.answer
