"""POST /v1/chat/completions."""

from gateway.permissions import MayUseModel
from gateway.schema import parse_chat
from gateway.throttling import Admission
from gateway.views.base import AskingView


class ChatCompletions(AskingView):
    """Answer a chat, as one JSON object or as a stream of events."""

    permission_classes = (MayUseModel,)
    throttle_classes = (Admission,)
    parse = staticmethod(parse_chat)
