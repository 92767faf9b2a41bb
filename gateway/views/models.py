"""GET /v1/models and /v1/models/{id}."""

from django.http import HttpResponse
from rest_framework.request import Request

from gateway.catalogue import Model, allows, models
from gateway.errors import Refusal, refuse
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response


class Models(DataView):
    """List the models that the caller's plan includes."""

    async def get(self, request: Request) -> HttpResponse:
        """The list, the configured model first."""
        caller = principal_of(request)
        seen = [shape(model) for model in models() if allows(caller, model.canonical)]
        return json_response({"object": "list", "data": seen})


class OneModel(DataView):
    """Describe one model."""

    async def get(self, request: Request, model: str) -> HttpResponse:
        """The model; 404 for one that does not exist or that the plan leaves out, which is not told apart here."""
        found = next((entry for entry in models() if entry.name == model), None)
        if found is None or not allows(principal_of(request), found.canonical):
            raise refuse(
                Refusal.MODEL_NOT_FOUND,
                f"The model '{model[:100]}' does not exist or is not yours. GET /v1/models lists yours.",
                param="model",
            )
        return json_response(shape(found))


def shape(model: Model) -> dict[str, str | int]:
    """OpenAI's model object; ``max_model_len`` beside it once an engine has said."""
    entry: dict[str, str | int] = {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "sluice",
    }
    return entry | {"max_model_len": model.max_model_len} if model.max_model_len else entry
