"""What is no address of this API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.views import APIView

from gateway_admin.api import errors


@extend_schema(exclude=True)
class NotFoundView(APIView):
    """Says so in this API's shape."""

    authentication_classes = ()
    permission_classes = ()

    def get_exception_handler(self) -> Any:
        """Answer in this API's shape."""
        return errors.answer

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Whatever the method.

        Raises:
            NotFound: always.
        """
        super().initial(request, *args, **kwargs)
        raise NotFound("There is no such address. GET /api/v1/schema lists those that there are.")
