"""POST /v1/chat/completions."""

from rest_framework.request import Request

from gateway.connection import Answer, DataRequest
from gateway.openapi import chat_schema
from gateway.permissions import MayUseModel
from gateway.prompts.expansion import named_prompt
from gateway.prompts.version import PromptText
from gateway.runtime import runtime
from gateway.schema import parse_chat
from gateway.throttling import Admission
from gateway.views.base import AskingView, principal_of


class ChatCompletions(AskingView):
    """Answer a chat."""

    endpoint = "chat"
    permission_classes = (MayUseModel,)
    throttle_classes = (Admission,)
    parse = staticmethod(parse_chat)

    async def prepare(self, request: DataRequest) -> None:
        """Read and check the body; of a stored prompt that it uses, note that it is used."""
        self._prompt: PromptText | None = None
        await super().prepare(request)
        if self._prompt is not None:
            runtime().prompts.used(principal_of(self.request), self._prompt, self.ask.model)

    async def complete(self, body: bytes) -> bytes:
        """Put in the messages of the stored prompt that it names; most name none."""
        use = named_prompt(body)
        if use is None:
            return body
        completed, self._prompt = await runtime().prompts.expand(principal_of(self.request), body, use)
        return completed

    @chat_schema
    async def post(self, request: Request) -> Answer:
        """Answer a chat, as one JSON object or as a stream of events."""
        return self.answer
