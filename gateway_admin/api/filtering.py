"""Query parameters that several nouns share."""

from typing import Any

from django import forms
from django_filters import rest_framework as filters

from tenants.models import Tenant

MOST_ID = 10**18
"""Every id is below: more digits would not fit into the databases' integers."""


class TenantFilter(filters.CharFilter):
    """By the tenant's short name; one that does not exist is a mistake and not an empty list."""

    class field_class(forms.CharField):  # noqa: N801  # django-filter looks for this name
        """Finds the tenant."""

        def clean(self, value: Any) -> int | None:
            """Return its id; None if the parameter was left out."""
            slug = super().clean(value)
            if not slug:
                return None
            tenant_id = Tenant.objects.filter(slug=slug).values_list("pk", flat=True).first()
            if tenant_id is None:
                raise forms.ValidationError("There is no such tenant.")
            return tenant_id

    def __init__(self, field_name: str = "tenant_id", **kwargs: Any) -> None:
        super().__init__(field_name=field_name, help_text="Short name of a tenant.", **kwargs)


class IdFilter(filters.NumberFilter):
    """By the id of another row."""

    class field_class(forms.IntegerField):  # noqa: N801
        """A whole number that a database can hold."""

        def __init__(self, **kwargs: Any) -> None:
            super().__init__(min_value=0, max_value=MOST_ID, **kwargs)


class MomentFilter(filters.IsoDateTimeFilter):
    """By a moment in ISO 8601; without an offset it is UTC."""

    class field_class(filters.IsoDateTimeFilter.field_class):  # noqa: N801
        """A moment between 1970 and 9000: near the ends of the calendar, time zones run over."""

        def clean(self, value: Any) -> Any:
            """Read it."""
            try:
                moment = super().clean(value)
            except OverflowError as error:
                raise forms.ValidationError("A moment between 1970 and 9000 is needed.") from error
            if moment is not None and not 1970 <= moment.year < 9000:
                raise forms.ValidationError("A moment between 1970 and 9000 is needed.")
            return moment
