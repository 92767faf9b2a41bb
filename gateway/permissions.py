"""What a caller may use."""

from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.views import APIView

from gateway.catalogue import allows, endpoints
from gateway.errors import ApiError, Refusal, refuse
from gateway.runtime import runtime
from gateway.views.base import AskingView, principal_of
from tenants.snapshot import Principal

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "embeddings": "/v1/embeddings"}


class MayUseModel(BasePermission):
    """The model exists, the caller's plan includes it, and it serves this endpoint."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True; the view goes on with the name under which engines serve the model.

        Raises:
            ApiError: 404 for an unknown model, 403 for one that the plan leaves out, 400 for one of another endpoint.
        """
        assert isinstance(view, AskingView)
        name = served_name(principal_of(request), view.ask.model, view.ask.endpoint)
        view.rename(name)
        return True


def served_name(principal: Principal | None, model: str, endpoint: str) -> str:
    """The name under which engines serve a model, for whoever may ask it at an endpoint.

    Args:
        principal: who asks; None for somebody of whom nothing is known, whose plan is not looked at.
        model: as he names it.
        endpoint: "chat", "completions" or "embeddings".

    Raises:
        ApiError: 404 for an unknown model, 403 for one that the plan leaves out, 400 for one of another endpoint.
    """
    name = runtime().find_model(model)
    if name is None:
        raise refuse(
            Refusal.MODEL_NOT_FOUND,
            f"The model '{model[:100]}' does not exist or you do not have access to it. GET /v1/models lists yours.",
            param="model",
        )
    if principal is not None and not allows(principal, name):
        raise refuse(
            Refusal.MODEL_NOT_ALLOWED,
            f"Your plan does not include the model '{name}'. GET /v1/models lists those it does.",
            param="model",
        )
    served = endpoints(name)
    if served and endpoint not in served:
        raise _wrong_endpoint(name, endpoint, served)
    return name


def _wrong_endpoint(model: str, asked: str, served: frozenset[str]) -> ApiError:
    right = " or ".join(path for endpoint, path in PATHS.items() if endpoint in served)
    message = f"The model '{model}' is not served at {PATHS[asked]}. Use {right}, or another model."
    return ApiError(400, message, param="model", code="unsupported_endpoint")
