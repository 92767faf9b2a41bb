"""GET /v1/models and /v1/models/{id}."""

from django.http import HttpResponse
from rest_framework.request import Request

from gateway.catalogue import Model, allows, models
from gateway.errors import Refusal, refuse
from gateway.openapi import model_schema, models_schema
from gateway.schema.answers import ModelCard, ModelList
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response


class Models(DataView):
    """All models."""

    @models_schema
    async def get(self, request: Request) -> HttpResponse:
        """List the models that the caller's plan includes, the configured one first."""
        caller = principal_of(request)
        seen = [card(model) for model in models() if allows(caller, model.canonical)]
        return json_response(ModelList("list", seen))


class OneModel(DataView):
    """One model."""

    @model_schema
    async def get(self, request: Request, model: str) -> HttpResponse:
        """Describe a model; one that the plan leaves out is not told apart from one that does not exist."""
        found = next((entry for entry in models() if entry.name == model), None)
        if found is None or not allows(principal_of(request), found.canonical):
            raise refuse(
                Refusal.MODEL_NOT_FOUND,
                f"The model '{model[:100]}' does not exist or is not yours. GET /v1/models lists yours.",
                param="model",
            )
        return json_response(card(found))


def card(model: Model) -> ModelCard:
    """OpenAI's model object."""
    return ModelCard(model.name, "model", model.created, "sluice", model.max_model_len or None)
