"""What a caller may use."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from gateway.catalogue import allows, endpoints
from gateway.errors import ApiError, Refusal, refuse
from gateway.runtime import runtime
from gateway.views.base import AskingView, principal_of

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "embeddings": "/v1/embeddings"}


class MayUseModel(BasePermission):
    """The model exists, the caller's plan includes it, and it serves this endpoint."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True; the view goes on with the name under which engines serve the model.

        Raises:
            ApiError: 404 for an unknown model, 403 for one that the plan leaves out, 400 for one of another endpoint.
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
        served = endpoints(name)
        if served and view.ask.endpoint not in served:
            raise _wrong_endpoint(name, view.ask.endpoint, served)
        view.rename(name)
        return True


def _wrong_endpoint(model: str, asked: str, served: frozenset[str]) -> ApiError:
    right = " or ".join(path for endpoint, path in PATHS.items() if endpoint in served)
    message = f"The model '{model}' is not served at {PATHS[asked]}. Use {right}, or another model."
    return ApiError(400, message, param="model", code="unsupported_endpoint")
