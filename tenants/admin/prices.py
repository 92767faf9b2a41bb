"""The pages of the price list: a price that has begun is history, and is replaced by a later one."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404, HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter, FieldTextFilter
from unfold.decorators import action, display

from tenants.admin.history import AuditedAdmin
from tenants.models import Price

if TYPE_CHECKING:
    _PriceModelForm = forms.ModelForm[Price]
else:
    _PriceModelForm = forms.ModelForm  # generic for the type checker only

_COMING, _IN_FORCE, _REPLACED = "coming", "in_force", "replaced"
_STATE_NAMES = {_COMING: _("Coming"), _IN_FORCE: _("In force"), _REPLACED: _("Replaced")}
_STATE_COLOURS = {_COMING: "info", _IN_FORCE: "success", _REPLACED: "warning"}
_FOR_WHAT = ("model", "model_version", "qos_class")
_AMOUNTS = ("input_per_million", "cached_input_per_million", "output_per_million")


class PriceForm(_PriceModelForm):
    """A price begins now or later, never in the past: what was charged stays charged."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "valid_from" in self.fields:
            self.fields["valid_from"].required = False
            self.fields["valid_from"].help_text = gettext("In UTC. Empty: from now on.")
        for name in _AMOUNTS:
            if name in self.fields:
                self.fields[name].help_text = settings.SLUICE.currency

    def clean_valid_from(self) -> Any:
        """Take the present for nothing.

        Raises:
            django.core.exceptions.ValidationError: it lies in the past.
        """
        at, now = self.cleaned_data["valid_from"], timezone.now()
        if at is not None and at < now:
            raise ValidationError(gettext("It must lie ahead: what was charged stays charged. Empty: from now on."))
        return at or now

    class Meta:
        """What is edited."""

        model = Price
        exclude = ()


@admin.register(Price)
class PriceAdmin(AuditedAdmin):
    """Prices of a million tokens by model, version and class."""

    form = PriceForm
    list_display = (
        "model",
        "version",
        "class_name",
        "input_price",
        "cached_price",
        "output_price",
        "valid_from",
        "state",
    )
    list_filter = (("model", FieldTextFilter), ("qos_class", ChoicesDropdownFilter))
    list_filter_submit = True
    search_fields = ("model", "model_version")
    sortable_by = ("model", "valid_from")
    actions_detail = ("replace",)
    actions = None  # deleting many would skip the question whether each has begun
    fieldsets = (
        (_("For what"), {"fields": ("model", ("model_version", "qos_class"))}),
        (_("Price"), {"fields": (_AMOUNTS, "valid_from")}),
    )

    def get_queryset(self, request: HttpRequest) -> "QuerySet[Price]":
        """Find out along whether a later one holds already."""
        prices: QuerySet[Price] = super().get_queryset(request)
        same = {name: OuterRef(name) for name in _FOR_WHAT}
        later = Price.objects.filter(**same, valid_from__gt=OuterRef("valid_from"), valid_from__lte=timezone.now())
        return prices.annotate(is_replaced=Exists(later))

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Leave the time empty: a moment that passes while the form is filled would be refused."""
        return {"valid_from": None, **super().get_changeform_initial_data(request)}

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not once it has begun."""
        return super().has_change_permission(request, obj) and not _has_begun(obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Not once it has begun."""
        return super().has_delete_permission(request, obj) and not _has_begun(obj)

    def has_add_successor_permission(self, request: HttpRequest, object_id: Any = None) -> bool:
        """Whether the operator may make prices."""
        return bool(self.has_add_permission(request))

    @action(description=_("Replace from …"), icon="event_repeat", permissions=["add_successor"])
    def replace(self, request: HttpRequest, object_id: str) -> HttpResponseRedirect:
        """Go and make the successor; it starts with the values of this one.

        Raises:
            Http404: no such price.
        """
        price: Price | None = self.get_object(request, object_id)
        if price is None:
            raise Http404(object_id)
        query = urlencode({name: getattr(price, name) for name in (*_FOR_WHAT, *_AMOUNTS)})
        return HttpResponseRedirect(f"{reverse('admin:tenants_price_add')}?{query}")

    @display(description=_("model version"))
    def version(self, price: Price) -> str:
        """Its beginning, or that all are meant."""
        return price.model_version or gettext("every version")

    @display(description=_("class"))
    def class_name(self, price: Price) -> str:
        """The class by its short name, or that all are meant."""
        return price.qos_class.upper() or gettext("every class")

    @display(description=_("prompt, a million"))
    def input_price(self, price: Price) -> str:
        """With the currency."""
        return _amount(price.input_per_million)

    @display(description=_("cached, a million"))
    def cached_price(self, price: Price) -> str:
        """With the currency."""
        return _amount(price.cached_input_per_million)

    @display(description=_("answer, a million"))
    def output_price(self, price: Price) -> str:
        """With the currency."""
        return _amount(price.output_per_million)

    @display(description=_("state"), label=_STATE_COLOURS)
    def state(self, price: Any) -> tuple[str, str]:
        """Whether it applies."""
        state = _COMING if not price.has_begun else _REPLACED if price.is_replaced else _IN_FORCE
        return state, str(_STATE_NAMES[state])


def _has_begun(obj: Any) -> bool:
    return isinstance(obj, Price) and obj.has_begun


def _amount(value: Any) -> str:
    return f"{value} {settings.SLUICE.currency}"
