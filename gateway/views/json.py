"""JSON responses."""

import msgspec
from django.http import HttpResponse


def json_response(value: object, status: int = 200) -> HttpResponse:
    """``value`` as JSON (UTF-8); anything that msgspec can encode."""
    return HttpResponse(msgspec.json.encode(value), status=status, content_type="application/json")
