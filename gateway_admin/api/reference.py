"""The published schema, and the page that shows it. Both are for whoever may log in."""

from typing import Any

from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerView
from rest_framework.authentication import SessionAuthentication
from rest_framework.permissions import IsAuthenticated

from gateway_admin.api import errors
from gateway_admin.api.authentication import AutomationTokenAuthentication
from gateway_admin.api.schema import SETTINGS

_ACCESS: dict[str, Any] = {
    "authentication_classes": (AutomationTokenAuthentication, SessionAuthentication),
    "permission_classes": (IsAuthenticated,),
}


class _Refusing:
    def get_exception_handler(self) -> Any:
        return errors.answer


class OperatorsSchemaView(_Refusing, SpectacularAPIView):
    """OpenAPI of this API alone."""

    custom_settings = SETTINGS
    urlconf = "gateway_admin.api.mounted"


class OperatorsDocsView(_Refusing, SpectacularSwaggerView):
    """Swagger, from packaged files."""

    url_name = "operators-schema"
    title = SETTINGS["TITLE"]


schema = OperatorsSchemaView.as_view(**_ACCESS)
docs = OperatorsDocsView.as_view(**_ACCESS)
