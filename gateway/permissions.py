"""What a caller may use."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from gateway.catalogue import allows
from gateway.errors import Refusal, refuse
from gateway.runtime import runtime
from gateway.views.base import AskingView, principal_of


class MayUseModel(BasePermission):
    """The model exists and the caller's plan includes it."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True; the view goes on with the name under which engines serve the model.

        Raises:
            ApiError: 404 for an unknown model, 403 for one that the plan leaves out.
        """
        assert isinstance(view, AskingView)
        name = runtime().find_model(view.ask.model)
        if name is None:
            shown = view.ask.model[:100]
            raise refuse(
                Refusal.MODEL_NOT_FOUND,
                f"The model '{shown}' does not exist or you do not have access to it. GET /v1/models lists yours.",
                param="model",
            )
        if not allows(principal_of(request), name):
            raise refuse(
                Refusal.MODEL_NOT_ALLOWED,
                f"Your plan does not include the model '{name}'. GET /v1/models lists those it does.",
                param="model",
            )
        view.rename(name)
        return True
