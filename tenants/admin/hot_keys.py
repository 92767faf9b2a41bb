"""The pages of the whitelist: what is asked for most, and what operators pin and ban."""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import Count, FloatField, Max, Q, QuerySet, Value
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter, ChoicesDropdownFilter, FieldTextFilter
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminSelectWidget

from tenants.admin.history import AuditedAdmin
from tenants.admin.hot_trend import rate_cell, trend_cell
from tenants.models import HotKey
from tenants.whitelist import (
    MOST_SET,
    WhitelistError,
    check_end,
    check_room,
    default_end,
    find_or_new,
    let_expire,
    release,
    set_rows,
)

if TYPE_CHECKING:
    _HotKeyModelForm = forms.ModelForm[HotKey]
else:
    _HotKeyModelForm = forms.ModelForm  # generic for the type checker only

State = HotKey.State
_COLOURS = {State.AUTO: "info", State.PINNED: "success", State.BANNED: "danger"}
_COLD = "cold"
_SET = [(State.PINNED.value, State.PINNED.label), (State.BANNED.value, State.BANNED.label)]


class HotKeyForm(_HotKeyModelForm):
    """What an operator sets: the state, until when, and why."""

    state = forms.ChoiceField(
        label=capfirst(_("state")),
        choices=_SET,
        widget=UnfoldAdminSelectWidget,
        help_text=_("Pinned: kept in every gateway, never evicted. Banned: its answers are neither kept nor given."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "expires_at" in self.fields:
            self.fields["expires_at"].required = True
            self.fields["expires_at"].help_text = gettext("In UTC. What operators set comes to an end.")
            if self.instance.pk is not None and self.instance.expires_at is None:
                self.initial.update(state=State.PINNED.value, expires_at=default_end())
        if "note" in self.fields:
            self.fields["note"].help_text = gettext("Why, for those who come later. Never what a tenant asked.")
        if "key" in self.fields:
            told = gettext("The value of the answer's header x-sluice-cache-key, or the id of a stored prompt.")
            self.fields["key"].label, self.fields["key"].help_text = capfirst(gettext("cache key")), told

    def clean_expires_at(self) -> Any:
        """See :func:`tenants.whitelist.check_end`."""
        try:
            return check_end(self.cleaned_data["expires_at"])
        except WhitelistError as error:
            raise ValidationError(str(error)) from error

    def clean(self) -> dict[str, Any]:
        """Take the row of a key that counting has found already."""
        values = super().clean() or self.cleaned_data
        if self.instance.pk is None and values.get("key") and values.get("kind"):
            try:
                self.instance = find_or_new(values["kind"], values["key"])
            except WhitelistError as error:
                self.add_error("key", str(error))
            else:
                values["key"] = self.instance.key
        if not self.errors:
            try:
                check_room([self.instance])
            except WhitelistError as error:
                raise ValidationError(str(error)) from error
        return values

    class Meta:
        """What is edited."""

        model = HotKey
        fields = ("kind", "key", "state", "expires_at", "note")


@admin.register(HotKey)
class HotKeyAdmin(AuditedAdmin):
    """The hottest keys with rate and trend; pinned and banned ones with who and when."""

    form = HotKeyForm
    list_before_template = "operators/whitelist_top.html"
    list_display = (
        "key_cell",
        "state_label",
        "rate",
        "trend_text",
        "whose",
        "last_seen",
        "expires",
        "changed",
    )
    list_filter = (
        ("state", ChoicesDropdownFilter),
        ("kind", ChoicesDropdownFilter),
        ("tenant", AutocompleteSelectFilter),
        ("model", FieldTextFilter),
    )
    list_filter_submit = True
    list_select_related = ("tenant",)
    search_fields = ("key", "note", "tenant__slug")
    search_help_text = _("Part of a key, of a note, or of the tenant's short name.")
    ordering = ("-rate_per_minute", "id")
    actions = ("pin_selected", "ban_selected", "expire_in_an_hour", "expire_in_a_day", "release_selected")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[HotKey]":
        """Say along what the highest rate is: a bar's full length."""
        rows: QuerySet[HotKey] = super().get_queryset(request)
        top = HotKey.objects.aggregate(top=Max("rate_per_minute"))["top"] or 0.0
        return rows.annotate(top_rate=Value(top, output_field=FloatField()))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Tell along how many there are of each kind."""
        counts = HotKey.objects.aggregate(
            all=Count("pk"),
            hot=Count("pk", filter=Q(state=State.AUTO, rate_per_minute__gt=0)),
            pinned=Count("pk", filter=Q(state=State.PINNED)),
            banned=Count("pk", filter=Q(state=State.BANNED)),
        )
        context = {**(extra_context or {}), "whitelist": counts, "most_set": MOST_SET}
        answer: HttpResponse = super().changelist_view(request, context)
        return answer

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """Offer a pin of a week."""
        asked = super().get_changeform_initial_data(request)
        return {"state": State.PINNED.value, "expires_at": default_end(), **asked}

    def get_fieldsets(self, request: HttpRequest, obj: HotKey | None = None) -> Any:
        """Ask for little; show what is known."""
        asked = ("state", "expires_at", "note")
        if obj is None:
            return [(None, {"fields": ("kind", "key", *asked)})]
        known = (
            "kind",
            "key_text",
            ("tenant", "model"),
            ("rate", "trend_text"),
            ("first_seen_at", "last_seen_at"),
            "changed",
        )
        return [(None, {"fields": asked}), (_("What is known"), {"fields": known})]

    def get_readonly_fields(self, request: HttpRequest, obj: HotKey | None = None) -> tuple[str, ...]:
        """A key stays what it is."""
        known = ("tenant", "model", "rate", "trend_text", "first_seen_at", "last_seen_at", "changed")
        return known if obj is None else ("kind", "key_text", *known)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: a key is released, and leaves the list when nobody asks for it."""
        return False

    def save_model(self, request: HttpRequest, obj: HotKey, form: forms.Form, change: Any) -> None:
        """Set it, with who and when."""
        assert obj.expires_at is not None  # the form demands it
        set_rows([obj], obj.state, obj.expires_at, request.user)

    # --- actions ----------------------------------------------------------------------------------------------------

    @action(description=_("Pin for 7 days"), permissions=["change"])
    def pin_selected(self, request: HttpRequest, queryset: "QuerySet[HotKey]") -> None:
        """Pin them for a week."""
        self._do(request, lambda: set_rows(queryset, State.PINNED, default_end(), request.user), _pinned)

    @action(description=_("Ban for 7 days"), permissions=["change"])
    def ban_selected(self, request: HttpRequest, queryset: "QuerySet[HotKey]") -> None:
        """Ban them for a week."""
        self._do(request, lambda: set_rows(queryset, State.BANNED, default_end(), request.user), _banned)

    @action(description=_("Let expire in 1 hour"), permissions=["change"])
    def expire_in_an_hour(self, request: HttpRequest, queryset: "QuerySet[HotKey]") -> None:
        """Move their end."""
        until = timezone.now() + timedelta(hours=1)
        self._do(request, lambda: let_expire(queryset, until, request.user), _moved)

    @action(description=_("Let expire in 1 day"), permissions=["change"])
    def expire_in_a_day(self, request: HttpRequest, queryset: "QuerySet[HotKey]") -> None:
        """Move their end."""
        until = timezone.now() + timedelta(days=1)
        self._do(request, lambda: let_expire(queryset, until, request.user), _moved)

    @action(description=_("Release"), permissions=["change"])
    def release_selected(self, request: HttpRequest, queryset: "QuerySet[HotKey]") -> None:
        """End what was set."""
        self._do(request, lambda: release(queryset, request.user), _released)

    def _do(self, request: HttpRequest, work: Callable[[], int], told: Callable[[int], str]) -> None:
        try:
            count = work()
        except WhitelistError as error:
            self.message_user(request, str(error), messages.ERROR)
            return
        if count:
            self.message_user(request, told(count) % {"count": count}, messages.SUCCESS)
        else:
            self.message_user(request, gettext("None of them is pinned or banned: nothing changed."), messages.WARNING)

    # --- columns ----------------------------------------------------------------------------------------------------

    @display(description=_("cache key"))
    def key_text(self, row: HotKey) -> str:
        """The key, for a form."""
        return row.key

    @display(description=_("cache key"), ordering="key")
    def key_cell(self, row: HotKey) -> SafeString:
        """The key, what it names, and the note."""
        about = " · ".join(part for part in (str(row.get_kind_display()), row.note) if part)
        return format_html('<code>{}</code><span class="sluice-about">{}</span>', row.key, about)

    @display(description=_("state"), label=_COLOURS, ordering="state")
    def state_label(self, row: HotKey) -> tuple[str, str]:
        """Hot, cold again, pinned or banned, coloured."""
        if row.state != State.AUTO:
            return row.state, str(row.get_state_display())
        return (row.state, gettext("hot")) if row.rate_per_minute else (_COLD, gettext("cold"))

    @display(description=_("a minute"), ordering="rate_per_minute")
    def rate(self, row: Any) -> SafeString:
        """Requests per minute."""
        return rate_cell(row, row.top_rate)

    @display(description=_("trend"), ordering="trend")
    def trend_text(self, row: HotKey) -> SafeString:
        """Whether it rises."""
        return trend_cell(row)

    @display(description=_("tenant"), ordering="tenant__slug")
    def whose(self, row: HotKey) -> SafeString:
        """Whose requests, and of which model."""
        name = row.tenant.slug if row.tenant else gettext("several or unknown")
        return format_html('{}<span class="sluice-about">{}</span>', name, row.model)

    @display(description=_("last seen"), ordering="last_seen_at")
    def last_seen(self, row: HotKey) -> str:
        """How long ago it was asked for."""
        return _ago(row.last_seen_at)

    @display(description=_("ends"), ordering="expires_at")
    def expires(self, row: HotKey) -> str:
        """In how long what was set is over."""
        if row.expires_at is None:
            return "–"
        if row.expires_at <= timezone.now():
            return gettext("now")
        return gettext("in %(time)s") % {"time": timeuntil(row.expires_at, depth=1)}

    @display(description=_("changed"), ordering="changed_at")
    def changed(self, row: HotKey) -> str:
        """Who set it, and how long ago."""
        if row.changed_at is None:
            return "–"
        return format_html('{}<span class="sluice-about">{}</span>', row.changed_by_name, _ago(row.changed_at))


def _ago(at: Any) -> str:
    if timezone.now() - at < timedelta(minutes=1):
        return gettext("just now")
    return gettext("%(time)s ago") % {"time": timesince(at, depth=1)}


def _pinned(count: int) -> str:
    return ngettext("%(count)d key pinned.", "%(count)d keys pinned.", count)


def _banned(count: int) -> str:
    return ngettext("%(count)d key banned.", "%(count)d keys banned.", count)


def _moved(count: int) -> str:
    return ngettext("The end of %(count)d key was moved.", "The ends of %(count)d keys were moved.", count)


def _released(count: int) -> str:
    return ngettext("%(count)d key released.", "%(count)d keys released.", count)
