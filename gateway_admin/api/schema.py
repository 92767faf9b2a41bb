"""The published schema of the operators' API: every status that may come, with one shape for refusals."""

from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from gateway_admin.api.errors import ErrorAnswer

_MEANING = {
    400: "A parameter or the body cannot be accepted; `fields` says which and why.",
    401: "No valid session or token.",
    403: "The user's roles, or the token's, do not allow this.",
    404: "There is no such object or page.",
    406: "The answer cannot be had in the form that `Accept` asks for.",
    409: "It does not fit how things stand; the message says what to do instead.",
    412: "It has been changed since you read it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    428: "`If-Match` is missing.",
    429: "Too many at once; `Retry-After` says when to come back.",
    503: "The database or the store of live counts does not answer.",
}
_ALWAYS = (400, 401, 403, 406, 503)
_IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, required=True, description="The ETag that you read, or `*`."
)
_IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="The ETag that you hold: 304 if nothing has changed."
)

SETTINGS: dict[str, Any] = {
    "TITLE": "Sluice for operators",
    "DESCRIPTION": "Tenants, plans, keys, prices, usage, adjustments, and who changed what.",
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": [],
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "TAGS": [],
}


class OperatorsSchema(AutoSchema):
    """Adds to each operation the refusals that its kind may meet, and the headers that it reads."""

    def get_override_parameters(self) -> list[OpenApiParameter]:
        """Entity tags."""
        if self._action in ("partial_update", "destroy"):
            return [_IF_MATCH]
        return [_IF_NONE_MATCH] if self._action == "retrieve" else []

    def get_operation_id(self) -> str:
        """``tenants_list``, ``keys_rotate`` and the like."""
        nouns = [part for part in self.path.removeprefix("/api/v1/").split("/") if not part.startswith("{")]
        if nouns[-1] != self._action:
            nouns.append(self._action)
        return "_".join(nouns).replace("-", "_")

    def get_tags(self) -> list[str]:
        """The noun."""
        return [self.path.removeprefix("/api/v1/").split("/")[0]]

    @property
    def _action(self) -> str:
        return str(getattr(self.view, "action", None) or self.method.lower())

    def _get_response_bodies(self, direction: Any = "response") -> Any:
        found = super()._get_response_bodies(direction)
        if self._action == "retrieve":
            found["304"] = {"description": "Nothing has changed."}
        for status in sorted(self._refusals()):
            found[str(status)] = {
                **self._get_response_for_code(ErrorAnswer, str(status), ["application/json"]),
                "description": _MEANING[status],
            }
        return found

    def _refusals(self) -> set[int]:
        refusals = {*_ALWAYS, *getattr(self.view, "refusals", {}).get(self._action, ())}
        if "{" in self.path or self._is_list_view():
            refusals.add(404)
        if self.method != "GET":
            refusals.add(409)
        if self.method in ("POST", "PATCH"):
            refusals |= {413, 415}
        if self._action in ("partial_update", "destroy"):
            refusals |= {412, 428}
        return refusals
