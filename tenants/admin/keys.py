"""The pages of API keys: make, rotate, revoke. The text of a key is shown once, on the page that answers its making."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import AutocompleteSelectFilter
from unfold.decorators import action, display
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget, UnfoldAdminSelectWidget

from tenants.admin.history import AuditedAdmin
from tenants.admin.holding import holdings, own_limits_line
from tenants.admin.key_search import find_keys
from tenants.admin.key_state import STATE_COLOURS, STATE_NAMES, ends_at, key_state, masked, when
from tenants.admin.limit_fields import limit_fieldsets
from tenants.admin.lines import NetworksField
from tenants.admin.live_view import live_state
from tenants.admin.paging import Endless
from tenants.keys import make_key
from tenants.models import SCOPE_CHOICES, ApiKey, UsageRecord
from tenants.models.key import all_scopes
from tenants.provision import revoke_key, rotate_key

if TYPE_CHECKING:
    _KeyModelForm = forms.ModelForm[ApiKey]
else:
    _KeyModelForm = forms.ModelForm  # generic for the type checker only

_GRACES = [
    (0, _("none: it stops at once")),
    (3600, _("1 hour")),
    (24 * 3600, _("1 day")),
    (7 * 24 * 3600, _("7 days")),
]


class RotateForm(forms.Form):
    """How long the old key goes on."""

    grace_s = forms.TypedChoiceField(
        label=_("The old key goes on for"),
        choices=_GRACES,
        coerce=int,
        initial=24 * 3600,
        widget=UnfoldAdminSelectWidget,
    )


class KeyForm(_KeyModelForm):
    """Scopes to tick, addresses as lines, and beside each limit the one that holds."""

    scopes = forms.MultipleChoiceField(
        label=_("Scopes"),
        initial=all_scopes,
        choices=SCOPE_CHOICES,
        widget=UnfoldAdminCheckboxSelectMultipleWidget,
        error_messages={"required": _("A key that may nothing is of no use: tick one, or revoke the key.")},
    )
    allowed_addresses = NetworksField(
        label=capfirst(_("allowed addresses")),
        help_text=_("One address or network a line, such as 203.0.113.0/24. Empty for every address."),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            for held in holdings(self.instance, self.instance.tenant.plan):
                if held.name in self.fields:
                    self.fields[held.name].help_text = gettext("Holds now: %(limit)s") % {"limit": held.text}

    class Meta:
        """What is edited."""

        model = ApiKey
        exclude = ()


@admin.register(ApiKey)
class ApiKeyAdmin(AuditedAdmin):
    """Keys by prefix; nothing here can show a key again."""

    form = KeyForm
    change_form_outer_before_template = "tenants/key_top.html"
    list_display = ("name", "tenant", "masked", "state", "own_limits", "created_at", "ends_at", "last_used_at")
    list_filter = (("tenant", AutocompleteSelectFilter), "revoked_at", "expires_at")
    list_filter_submit = True
    list_select_related = ("tenant__plan",)
    # The newest first, by the index that is there; other orders would sort every key.
    ordering = ("-id",)
    sortable_by = ()
    paginator = Endless
    search_fields = ("prefix", "name", "tenant__slug")
    search_help_text = _("A key or its prefix, or part of its name or of the tenant's short name.")
    autocomplete_fields = ("tenant",)
    actions = ("revoke_selected",)
    actions_detail = ("rotate", "revoke")

    def get_queryset(self, request: HttpRequest) -> "QuerySet[ApiKey]":
        """Look up along when each key was used last."""
        keys: QuerySet[ApiKey] = super().get_queryset(request)
        latest = UsageRecord.objects.filter(key=OuterRef("pk")).order_by("-finished_at").values("finished_at")[:1]
        return keys.select_related("tenant__plan").annotate(last_used_at=Subquery(latest))

    def get_search_results(
        self, request: HttpRequest, queryset: "QuerySet[ApiKey]", search_term: str
    ) -> "tuple[QuerySet[ApiKey], bool]":
        """Search by what has an index."""
        return find_keys(queryset, search_term), False

    def get_urls(self) -> list[URLPattern]:
        """Add the live figures."""
        live = path("<path:object_id>/live", self.admin_site.admin_view(self.live_view), name="tenants_apikey_live")
        urls: list[URLPattern] = super().get_urls()
        return [live, *urls]

    def live_view(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """How far the limits that hold for the key are used, as JSON."""
        key = self._key(request, object_id)
        if not self.has_view_permission(request, key):
            raise PermissionDenied
        return live_state(key.tenant, key)

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        """Add the panel of live limits."""
        context = dict(extra_context or {})
        if object_id is not None:
            context["live_url"] = reverse("admin:tenants_apikey_live", args=[object_id])
        return super().changeform_view(request, object_id, form_url, context)

    def get_fieldsets(self, request: HttpRequest, obj: ApiKey | None = None) -> Any:
        """Ask for little; show what is known."""
        asked = ("tenant", "name", "expires_at")
        known = asked if obj is None else ("masked", "state_name", *asked, "created_at", "ends_at", "last_used_at")
        told = _("They hold beside those of the tenant's plan: the lesser one does. Empty: the plan's alone.")
        return [
            (None, {"fields": known}),
            (_("What it may"), {"fields": ("scopes", "allowed_addresses")}),
            *limit_fieldsets(told),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: ApiKey | None = None) -> tuple[str, ...]:
        """A key stays with its tenant."""
        return () if obj is None else ("masked", "state_name", "tenant", "created_at", "ends_at", "last_used_at")

    @display(description=_("key"))
    def masked(self, key: ApiKey) -> str:
        """The part of the key that is known."""
        return masked(key)

    @display(description=_("state"), label=STATE_COLOURS)
    def state(self, key: ApiKey) -> tuple[str, str]:
        """Whether the key opens the door."""
        state = key_state(key)
        return state, str(STATE_NAMES[state])

    @display(description=_("state"))
    def state_name(self, key: ApiKey) -> str:
        """The same without colour, for a form, which shows no label."""
        return str(STATE_NAMES[key_state(key)])

    @display(description=_("limits"))
    def own_limits(self, key: ApiKey) -> str:
        """The limits of its own that hold, or that the tenant's plan does."""
        return own_limits_line(key)

    @display(description=_("ends"))
    def ends_at(self, key: ApiKey) -> str:
        """When the key stops working, or did."""
        return when(ends_at(key))

    @display(description=_("last used"))
    def last_used_at(self, key: Any) -> str:
        """When the last request with it ended."""
        return when(key.last_used_at)

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Offer one way of saving a new key, since all of them show it."""
        if kwargs.get("add"):
            context |= {"show_save_and_add_another": False, "show_save_and_continue": False}
        return super().render_change_form(request, context, *args, **kwargs)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: forms.Form, change: Any) -> None:
        """Draw the key when it is made."""
        if not change:
            new = make_key()
            obj.prefix, obj.digest, obj.plaintext = new.prefix, new.digest, new.plaintext
        super().save_model(request, obj, form, change)

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: str | None = None) -> HttpResponse:
        """Show the key in the answer itself: kept anywhere until a next page, it would be stored."""
        return self._show_once(request, obj, obj.plaintext)

    def _show_once(self, request: HttpRequest, key: ApiKey, plaintext: str) -> HttpResponse:
        context = {"title": _("New API key"), "key": key, "plaintext": plaintext, "key_url": _change_url(key)}
        return self._page(request, "keys/created.html", context)

    def _page(self, request: HttpRequest, template: str, context: dict[str, Any]) -> TemplateResponse:
        common = {**self.admin_site.each_context(request), "opts": self.opts, "media": self.media}
        return TemplateResponse(request, template, {**common, **context})

    @action(description=_("Rotate"), icon="autorenew", permissions=["change"])
    def rotate(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Replace the key by a new one; the old one goes on for the time chosen."""
        key = self._key(request, object_id)
        form = RotateForm(request.POST or None)
        if request.method == "POST" and form.is_valid():
            grace = timedelta(seconds=form.cleaned_data["grace_s"])
            new, plaintext = rotate_key(key, grace)
            self.log_change(request, key, gettext("Rotated; ends at %(at)s.") % {"at": when(key.revoked_at)})
            self.log_addition(request, new, gettext("Successor of key %(prefix)s.") % {"prefix": key.prefix})
            return self._show_once(request, new, plaintext)
        return self._page(request, "keys/rotate.html", {"title": _("Rotate API key"), "key": key, "form": form})

    @action(description=_("Revoke"), icon="block", permissions=["change"])
    def revoke(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        """Revoke one key after asking."""
        key = self._key(request, object_id)
        if request.method == "POST":
            self._revoke_all(request, [key])
            return HttpResponseRedirect(_change_url(key))
        return self._ask_to_revoke(request, [key], _change_url(key), is_action=False)

    @action(description=_("Revoke selected keys"), permissions=["change"])
    def revoke_selected(self, request: HttpRequest, queryset: "QuerySet[ApiKey]") -> HttpResponseBase | None:
        """Revoke many keys after asking."""
        keys = list(queryset)
        if request.POST.get("confirmed"):
            self._revoke_all(request, keys)
            return None
        return self._ask_to_revoke(request, keys, reverse("admin:tenants_apikey_changelist"), is_action=True)

    def _key(self, request: HttpRequest, object_id: str) -> ApiKey:
        key: ApiKey | None = self.get_object(request, object_id)
        if key is None:
            raise Http404(object_id)
        return key

    def _ask_to_revoke(
        self, request: HttpRequest, keys: list[ApiKey], back_url: str, *, is_action: bool
    ) -> HttpResponseBase:
        context = {
            "title": _("Revoke API keys"),
            "keys": keys,
            "back_url": back_url,
            "is_action": is_action,
            "checkbox_name": ACTION_CHECKBOX_NAME,
        }
        return self._page(request, "keys/revoke.html", context)

    def _revoke_all(self, request: HttpRequest, keys: list[ApiKey]) -> None:
        now = timezone.now()
        for key in keys:
            revoke_key(key, now)
            self.log_change(request, key, gettext("Revoked."))
        told = ngettext(
            "%(count)d key revoked. It is refused within a second.",
            "%(count)d keys revoked. They are refused within a second.",
            len(keys),
        )
        self.message_user(request, told % {"count": len(keys)}, messages.SUCCESS)


def _change_url(key: ApiKey) -> str:
    return reverse("admin:tenants_apikey_change", args=[key.pk])
