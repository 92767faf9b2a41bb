"""What goes wrong, in one shape: ``{"error": {"type", "message", "fields"}}``."""

from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import DataError, IntegrityError, InterfaceError, OperationalError
from django.db.models import ProtectedError
from django.http import Http404
from redis.exceptions import RedisError
from rest_framework import exceptions, serializers
from rest_framework.response import Response

TYPES = {
    400: "invalid_request",
    401: "not_authenticated",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    412: "precondition_failed",
    413: "body_too_large",
    415: "unsupported_media_type",
    428: "precondition_required",
    429: "too_many_requests",
    503: "unavailable",
}
_SEVERAL = "Some values cannot be accepted; `fields` says which and why."


class ErrorDetail(serializers.Serializer[Any]):
    """What went wrong."""

    type = serializers.ChoiceField(choices=sorted(TYPES.values()), help_text="One for each HTTP status.")
    message = serializers.CharField(help_text="What is wrong and what to change, for a person.")
    fields = serializers.DictField(  # type: ignore[assignment]  # the name of the field, not of the serializer's own
        child=serializers.ListField(child=serializers.CharField()),
        help_text="Name of a field or parameter -> what is wrong with it. Empty if it is about none.",
    )


class ErrorAnswer(serializers.Serializer[Any]):
    """The body of every refusal."""

    error = ErrorDetail()


class Conflict(exceptions.APIException):
    """What is asked for does not fit how things stand."""

    status_code = 409


class PreconditionFailed(exceptions.APIException):
    """The object has changed since the caller read it."""

    status_code = 412
    default_detail = "It has been changed since you read it. Read it again and send the new ETag as If-Match."


class BodyTooLarge(exceptions.APIException):
    """The body is larger than anything that is needed here."""

    status_code = 413


class PreconditionRequired(exceptions.APIException):
    """The caller did not say which state of the object is to be changed."""

    status_code = 428
    default_detail = "Send the ETag that you read as If-Match, so that nobody's change is overwritten unseen."


class Unavailable(exceptions.APIException):
    """Something behind this does not answer."""

    status_code = 503


def answer(error: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn an exception into an answer; None for what is a fault of this program (REST framework's handler)."""
    known = _known(error)
    if known is None:
        return None
    fields: dict[str, list[str]] = {}
    if isinstance(known, exceptions.ValidationError):
        for name, message in _flat(known.detail):
            fields.setdefault(name, []).append(message)
    general = fields.pop("", [])
    message = " ".join(general) if general else (_SEVERAL if fields else str(known.detail))
    body = {"error": {"type": TYPES[known.status_code], "message": message, "fields": fields}}
    return Response(body, status=known.status_code, headers=_headers(known))


def _known(error: Exception) -> exceptions.APIException | None:
    if isinstance(error, exceptions.APIException):
        return error
    if isinstance(error, Http404):
        return exceptions.NotFound()
    if isinstance(error, DjangoPermissionDenied):
        return exceptions.PermissionDenied()
    if isinstance(error, ProtectedError):
        return Conflict("It cannot be deleted, because usage, adjustments or other rows refer to it.")
    if isinstance(error, IntegrityError):
        return Conflict("Somebody else has just written the same. Read it again.")
    if isinstance(error, DataError):
        return exceptions.ValidationError({"": ["A value is out of the range that can be stored."]})
    if isinstance(error, OperationalError | InterfaceError):
        return Unavailable("The database does not answer. Try again.")
    if isinstance(error, RedisError | ConnectionError | TimeoutError):
        return Unavailable("The store of live counts does not answer. Try again.")
    return None


def _flat(detail: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Name each message by the way to it: ``scopes.0``; what is about the whole has no name."""
    if isinstance(detail, Mapping):
        for name, inner in detail.items():
            part = "" if name == "non_field_errors" else str(name)
            yield from _flat(inner, f"{path}.{part}" if path and part else path or part)
    elif isinstance(detail, list | tuple):
        for inner in detail:
            yield from _flat(inner, path)
    else:
        yield path, str(detail)


def _headers(error: exceptions.APIException) -> dict[str, str]:
    # REST framework hangs both of them on the exception.
    found = {"WWW-Authenticate": getattr(error, "auth_header", None), "Retry-After": getattr(error, "wait", None)}
    return {name: str(value) for name, value in found.items() if value is not None}
