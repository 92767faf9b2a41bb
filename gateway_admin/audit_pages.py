"""The pages of the audit log: to read and to search, never to change."""

from typing import Any

from auditlog.models import LogEntry
from django.contrib import admin
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from unfold.contrib.filters.admin import ChoicesDropdownFilter, FieldTextFilter, RelatedDropdownFilter
from unfold.decorators import display
from unfold.paginator import InfinitePaginator

from tenants.admin.key_state import when
from tenants.admin.read_only import ReadOnlyAdmin
from tenants.admin.time_range import TimeRangeFilter

_NAMES = {
    LogEntry.Action.CREATE: ("create", _("made")),
    LogEntry.Action.UPDATE: ("update", _("changed")),
    LogEntry.Action.DELETE: ("delete", _("deleted")),
    LogEntry.Action.ACCESS: ("access", _("looked at")),
}
_COLOURS = {"create": "success", "update": "info", "delete": "danger", "access": "info"}
_FIELDS_NAMED = 4
_BEFORE_AFTER = 2

admin.site.unregister(LogEntry)


@admin.register(LogEntry)
class LogEntryAdmin(ReadOnlyAdmin):
    """Who changed which row, when, from where, by page, token or command line."""

    list_display = ("at", "by", "what", "row", "fields_line", "address")
    list_filter = (
        ("action", ChoicesDropdownFilter),
        ("content_type", RelatedDropdownFilter),
        ("object_pk", FieldTextFilter),
        ("timestamp", TimeRangeFilter),
    )
    list_filter_submit = True
    list_select_related = ("content_type", "actor")
    search_fields = ("object_repr", "actor__username", "remote_addr")
    search_help_text = _("Part of the row's name, of the operator's name or of the address.")
    sortable_by = ()
    ordering = ("-timestamp", "-id")
    paginator = InfinitePaginator
    fields = ("at", "by", "what", "kind", "row", "address", "changes_table")
    readonly_fields = fields

    def get_queryset(self, request: HttpRequest) -> Any:
        """Read along whom and what it is about."""
        return super().get_queryset(request).select_related("content_type", "actor")

    @display(description=_("at"))
    def at(self, entry: LogEntry) -> str:
        """When, to the second, as everywhere."""
        return when(entry.timestamp)

    @display(description=_("address"))
    def address(self, entry: LogEntry) -> str:
        """From where; none at the command line."""
        return entry.remote_addr or "–"

    @display(description=_("who"))
    def by(self, entry: LogEntry) -> str:
        """The operator, and with which token; the name is kept when the operator is gone."""
        told = entry.additional_data or {}
        name = str(told.get("by") or entry.actor or gettext("nobody"))
        token = told.get("token")
        return gettext("%(name)s by the token “%(token)s”") % {"name": name, "token": token} if token else name

    @display(description=_("action"), label=_COLOURS)
    def what(self, entry: LogEntry) -> tuple[str, str]:
        """Made, changed or deleted."""
        key, name = _NAMES[entry.action]
        return key, str(name)

    @display(description=_("kind"))
    def kind(self, entry: LogEntry) -> str:
        """What kind of row."""
        return str(capfirst(str(entry.content_type)))

    @display(description=_("row"))
    def row(self, entry: LogEntry) -> str | SafeString:
        """The row, leading to its page while there is one."""
        name = f"{entry.content_type.name}: {entry.object_repr}"
        if entry.action == LogEntry.Action.DELETE:
            return name
        try:
            kind = f"{entry.content_type.app_label}_{entry.content_type.model}"
            url = reverse(f"admin:{kind}_change", args=[entry.object_pk])
        except NoReverseMatch:
            return name
        return format_html('<a class="sluice-link" href="{}">{}</a>', url, name)

    @display(description=_("what changed"))
    def fields_line(self, entry: LogEntry) -> str:
        """The names of the fields."""
        names = _field_names(entry)
        more = len(names) - _FIELDS_NAMED
        shown = ", ".join(names[:_FIELDS_NAMED])
        return gettext("%(fields)s and %(count)d more") % {"fields": shown, "count": more} if more > 0 else shown

    @display(description=_("what changed"))
    def changes_table(self, entry: LogEntry) -> SafeString:
        """Each field with its value before and after."""
        head = (gettext("Field"), gettext("Before"), gettext("After"))
        rows = format_html_join("", "<tr><th scope=row>{}</th><td>{}</td><td>{}</td></tr>", _changes(entry))
        return format_html(
            '<table class="sluice-table"><thead><tr><th scope="col">{}</th><th scope="col">{}</th>'
            '<th scope="col">{}</th></tr></thead><tbody>{}</tbody></table>',
            *head,
            rows,
        )


def _field_names(entry: LogEntry) -> list[str]:
    """The fields that changed, as people call them, without looking anything up."""
    model = entry.content_type.model_class()
    known = {} if model is None else {field.name: str(field.verbose_name) for field in _fields_of(model)}
    return [known.get(name, name) for name in entry.changes_dict]


def _fields_of(model: type[Model]) -> list[Any]:
    return [*model._meta.concrete_fields, *model._meta.many_to_many]


def _changes(entry: LogEntry) -> list[tuple[str, str, str]]:
    if entry.content_type.model_class() is None:  # of a part that is no longer installed
        return [(name, "–", str(told)) for name, told in entry.changes_dict.items()]
    relations = [_relation(name, told) for name, told in entry.changes_dict.items() if isinstance(told, dict)]
    values = [(str(name), *told) for name, told in entry.changes_display_dict.items() if len(told) == _BEFORE_AFTER]
    return relations + [(name, _shown(before), _shown(after)) for name, before, after in values]


def _relation(name: str, told: dict[str, Any]) -> tuple[str, str, str]:
    """What was added to a relation or taken from it."""
    objects = ", ".join(str(one) for one in told.get("objects", ()))
    return (name, objects, "–") if told.get("operation") == "delete" else (name, "–", objects)


def _shown(value: Any) -> str:
    return "–" if value in (None, "None", "") else str(value)
