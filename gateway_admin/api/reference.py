"""The published schema, and the page that shows it. Both are for whoever may log in."""

from functools import lru_cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.settings import patched_settings
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from gateway_admin.api import errors
from gateway_admin.api.authentication import AutomationTokenAuthentication
from gateway_admin.api.schema import SETTINGS

_ACCESS: dict[str, Any] = {
    "authentication_classes": (AutomationTokenAuthentication, SessionAuthentication),
    "permission_classes": (IsAuthenticated,),
}


@lru_cache(maxsize=1)
def operators_schema() -> dict[str, Any]:
    """OpenAPI of this API alone; it changes with the program only."""
    with patched_settings(SETTINGS):
        schema: dict[str, Any] = SchemaGenerator(urlconf="gateway_admin.api.mounted").get_schema(public=True)
    return schema


class _Refusing:
    def get_exception_handler(self) -> Any:
        return errors.answer


class OperatorsSchemaView(_Refusing, SpectacularAPIView):
    """OpenAPI of this API alone."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """As JSON or YAML, by ``Accept`` or ``format``."""
        return Response(operators_schema())


class OperatorsDocsView(_Refusing, SpectacularSwaggerView):
    """Swagger, from packaged files."""

    url_name = "operators-schema"
    title = SETTINGS["TITLE"]


schema = OperatorsSchemaView.as_view(**_ACCESS)
docs = OperatorsDocsView.as_view(**_ACCESS)
