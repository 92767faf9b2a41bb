"""POST /v1/completions."""

from gateway.permissions import MayUseModel
from gateway.schema import parse_completions
from gateway.throttling import Admission
from gateway.views.base import AskingView


class Completions(AskingView):
    """Go on from a text or from token ids, as one JSON object or as a stream of events."""

    permission_classes = (MayUseModel,)
    throttle_classes = (Admission,)
    parse = staticmethod(parse_completions)
