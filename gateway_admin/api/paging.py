"""Pages of lists."""

from datetime import datetime

from django.utils.dateparse import parse_datetime
from rest_framework.exceptions import ValidationError
from rest_framework.pagination import Cursor, CursorPagination, PageNumberPagination
from rest_framework.request import Request

from tenants.admin.paging import IdsFirst

MOST = 500


class Pages(PageNumberPagination):
    """Numbered pages, for lists of which one wants to know how long they are."""

    django_paginator_class = IdsFirst
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = MOST


class TimeCursor(CursorPagination):
    """Pages that stay right while rows are added at the front, however long the list is."""

    page_size = 100
    page_size_query_param = "page_size"
    max_page_size = MOST

    def decode_cursor(self, request: Request) -> Cursor | None:
        """Read the cursor.

        Raises:
            ValidationError: it is not one that was given out here.
        """
        try:
            cursor = super().decode_cursor(request)
        except Exception as error:
            raise _no_cursor() from error
        if cursor is not None and cursor.position is not None and _moment(str(cursor.position)) is None:
            raise _no_cursor()
        return cursor


def _moment(text: str) -> datetime | None:
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    return moment if moment is not None and moment.tzinfo is not None and 1970 < moment.year < 9000 else None


def _no_cursor() -> ValidationError:
    return ValidationError({"cursor": ["Take the cursor from `next` or `previous` of another page."]})
