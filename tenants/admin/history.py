"""Pages whose history is that of the audit log."""

from typing import Any
from urllib.parse import urlencode

from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from unfold.admin import ModelAdmin

_MAY_READ = "auditlog.view_logentry"


class AuditedAdmin(ModelAdmin):
    """Leads from a row's button "History" to its entries of the audit log."""

    show_full_result_count = False
    list_per_page = 50

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Go to the entries of this row, also of one that was deleted.

        Raises:
            PermissionDenied: the operator may not read the audit log.
        """
        if not request.user.has_perm(_MAY_READ):
            raise PermissionDenied
        asked = {"content_type__id__exact": ContentType.objects.get_for_model(self.model).pk, "object_pk": object_id}
        return HttpResponseRedirect(f"{reverse('admin:auditlog_logentry_changelist')}?{urlencode(asked)}")
