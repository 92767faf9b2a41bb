"""What all views of the operators' API share."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.db import transaction
from django.http import Http404
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404
from django.utils import translation
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import NotAcceptable, ValidationError
from rest_framework.filters import OrderingFilter, SearchFilter
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.pagination import BasePagination
from rest_framework.renderers import BaseRenderer, BrowsableAPIRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from gateway_admin.api import errors
from gateway_admin.api.authentication import AutomationTokenAuthentication
from gateway_admin.api.etags import etag_of, is_known, require_unchanged
from gateway_admin.api.paging import Pages
from gateway_admin.api.parsing import BoundedJSONParser
from gateway_admin.api.permissions import HoldsPermission
from gateway_admin.api.schema import OperatorsSchema

_PAGE_PARAMETERS = ("page_query_param", "cursor_query_param", "page_size_query_param")
_FILTER_PARAMETERS = {SearchFilter: "search", OrderingFilter: "ordering"}


class _Negotiation(DefaultContentNegotiation):
    """Answers 406 to a ``format`` that there is not, as to such an ``Accept``; stock would say 404."""

    def filter_renderers(self, renderers: Any, format: str) -> Any:  # noqa: A002  # the library's name
        """Those of that form.

        Raises:
            NotAcceptable: there is none.
        """
        try:
            return super().filter_renderers(renderers, format)
        except Http404 as error:
            raise NotAcceptable from error


class OperatorsViewSet(GenericViewSet[Any]):
    """One noun.

    Attributes:
        needs: action -> the permission that it takes; None for any user.
        parameters: action -> query parameters that it knows besides those of its filters and pages.
        refusals: action -> statuses beyond those of all actions of its kind, for the schema.
    """

    authentication_classes = (AutomationTokenAuthentication, SessionAuthentication)
    permission_classes = (HoldsPermission,)
    parser_classes = (BoundedJSONParser,)
    renderer_classes: Sequence[type[BaseRenderer]] = (JSONRenderer, BrowsableAPIRenderer)
    content_negotiation_class = _Negotiation
    pagination_class: type[BasePagination] = Pages
    metadata_class = None
    schema = OperatorsSchema()

    needs: ClassVar[Mapping[str, str | None]]
    parameters: ClassVar[Mapping[str, frozenset[str]]] = {}
    refusals: ClassVar[Mapping[str, tuple[int, ...]]] = {}

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Serve the request in English: programs read what comes back."""
        with translation.override("en"):
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Let in who may, and refuse parameters that nobody would look at: a misspelt filter would show everything.

        Raises:
            ValidationError: an unknown parameter.
        """
        super().initial(request, *args, **kwargs)
        unknown = set(request.query_params) - self._known_parameters()
        if unknown:
            raise ValidationError({name: ["There is no such parameter here."] for name in sorted(unknown)})

    def get_exception_handler(self) -> Callable[[Exception, Any], Response | None]:
        """Answer in this API's shape."""
        return errors.answer

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Write refusals as JSON, also where files are asked for."""
        chosen = getattr(request, "accepted_renderer", None)
        if getattr(response, "exception", False) and not isinstance(chosen, JSONRenderer | BrowsableAPIRenderer):
            request.accepted_renderer, request.accepted_media_type = JSONRenderer(), JSONRenderer.media_type
        return super().finalize_response(request, response, *args, **kwargs)

    def row(self, *, locked: bool = False) -> Any:
        """The object that the address names; ``locked`` until the transaction ends.

        Raises:
            django.http.Http404: there is none.
        """
        rows = self.get_queryset()
        if locked:
            rows = rows.select_for_update(of=("self",))
        return get_object_or_404(rows, **{self.lookup_field: self.kwargs[self.lookup_field]})

    def shown(self, row: Any, status: int = 200) -> Response:
        """Answer with one object and its ETag."""
        body = self.get_serializer(row).data
        return Response(body, status, headers={"ETag": etag_of(row, body)})

    def _known_parameters(self) -> set[str]:
        known = {"format"} | self.parameters.get(self.action or "", frozenset())
        if self.action == "list":
            filters = getattr(self, "filterset_class", None)
            known |= set(filters.base_filters) if filters else set()
            known |= {name for kind, name in _FILTER_PARAMETERS.items() if kind in self.filter_backends}
            known |= {name for which in _PAGE_PARAMETERS if (name := getattr(self.paginator, which, None))}
        return known


class Listing(OperatorsViewSet):
    """GET of the list."""

    def list(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One page."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        return self.get_paginated_response(self.get_serializer(page, many=True).data)


class Reading(Listing):
    """GET of the list and of one."""

    def retrieve(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """One object, or 304 for who holds this very copy."""
        found = self.shown(self.row())
        if is_known(request, found["ETag"]):
            return Response(status=304, headers={"ETag": found["ETag"]})
        return found


class Creating(OperatorsViewSet):
    """POST to the list."""

    def create(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Make one."""
        serializer = self.get_serializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        with transaction.atomic():
            row = serializer.save()
        return self.shown(row, 201)


class Changing(OperatorsViewSet):
    """PATCH and DELETE of one, by ``If-Match``. There is no PUT: what it leaves out would be lost or not, by taste."""

    def partial_update(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Change what is sent."""
        with transaction.atomic():
            row = self.row(locked=True)
            require_unchanged(request, row)
            self.require_changeable(row)
            serializer = self.get_serializer(row, data=request.data, partial=True)
            serializer.is_valid(raise_exception=True)
            row = serializer.save()
        return self.shown(row)

    def destroy(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        """Delete it."""
        with transaction.atomic():
            row = self.row(locked=True)
            require_unchanged(request, row)
            self.require_deletable(row)
            row.delete()
        return Response(status=204)

    def require_changeable(self, row: Any) -> None:
        """Raise Conflict if the row must stay as it is."""

    def require_deletable(self, row: Any) -> None:
        """Raise Conflict, with what to do instead, if the row must stay."""
