"""The page on which tenants see their own limits, usage and batches; it is open to everybody and knows nobody.

The person's API key stays in the browser: the page's script asks ``/v1/limits``, ``/v1/usage``, ``/v1/batches`` and
``/v1/files`` with it, as any client does. Nothing on this side ever sees it.
"""

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import translation
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from domain.limits import KINDS
from tenants.admin.figures import limit_label
from tenants.models import QOS_CHOICES, SCOPE_CHOICES
from tenants.models.bulk import STATUS_CHOICES

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)


@require_safe
def account(request: HttpRequest) -> HttpResponse:
    """The page, in the browser's language or in the one that ``?language=`` names."""
    wanted = request.GET.get("language", "")
    language = wanted if wanted in dict(settings.LANGUAGES) else translation.get_language()
    with translation.override(language):
        context = {"languages": settings.LANGUAGES, "language": translation.get_language(), "words": page_words()}
        page = render(request, "account/account.html", context)
    page["Content-Security-Policy"] = _POLICY
    page["Referrer-Policy"] = "no-referrer"
    page["Cache-Control"] = "no-cache"
    page["Content-Language"] = language or settings.LANGUAGE_CODE
    return page


def page_words() -> dict[str, Any]:
    """Texts with which the page's script writes, in the language that is active."""
    return {
        "limits": {name: limit_label(name) for name in KINDS},
        "classes": dict(QOS_CHOICES),
        "scopes": dict(SCOPE_CHOICES),
        "levels": {"tenant": _("your plan: all keys together"), "key": _("this key")},
        "errors": {
            "key_missing": _("Paste your API key."),
            "key_unknown": _("This API key is not known. Check that you copied all of it."),
            "key_revoked": _("This API key was revoked. Use another one."),
            "key_expired": _("This API key has expired. Use a newer one."),
            "tenant_disabled": _("This account is switched off. Ask your operator."),
            "address_not_allowed": _("This API key may not be used from your address. Ask your operator."),
            "scope_missing": _("This API key may not read usage and limits. Use one that may, or ask your operator."),
            "files_unavailable": _("Batches cannot be read at the moment. This page tries again by itself."),
            "store_unavailable": _("Limits cannot be read at the moment. This page tries again by itself."),
            "usage_unavailable": _("Usage cannot be read at the moment. This page tries again by itself."),
            "away": _("The gateway does not answer. This page tries again by itself."),
            "other": _("The gateway answered with an error."),
        },
        "ends_first": _("{whose}, ends first"),
        "signed": _("{tenant} · plan {plan} · key sk-sluice-{key}…"),
        "of": _("{used} of {limit}"),
        "held": _("{held} set aside for requests under way"),
        "remaining": _("{remaining} left"),
        "used_up": _("used up"),
        "soft": _("warned from {soft} on"),
        "at_once": _("comes back as requests end"),
        "full": _("full"),
        "full_in": _("full again in {time}"),
        "resets": _("begins anew on {time}"),
        "unknown": _("may be more: the gateway has just begun to count anew"),
        "s": _("{number} s"),
        "min": _("{number} min"),
        "ms": _("{number} ms"),
        "measures": {"cost": _("Cost"), "tokens": _("Tokens"), "requests": _("Requests")},
        "all": _("All"),
        "others": _("Others"),
        "deleted": _("deleted key"),
        "chart": _("{measure} from {start} to {end}: {total} in all"),
        "nothing": _("Nothing was used in this time."),
        **_batch_words(),
    }


def _batch_words() -> dict[str, Any]:
    return {
        "statuses": dict(STATUS_CHOICES),
        "waits": {
            "concurrency": _("waits: as many of your requests run as may at once"),
            "queue_full": _("waits: many requests of this class wait already"),
            "queue_draining": _("waits: an operator lets no more requests of this class run for now"),
            "ttl": _("waits: engines are busy with more urgent requests"),
            "no_backend": _("waits: no engine serves the model at the moment"),
        },
        "waits_limit": _("waits: {limit} used up"),
        "waits_other": _("waits, and is tried again ({reason})"),
        "lines_wrong": _("{count} errors in its file"),
        "failed": _("{count} failed"),
        "ended": _("ended {time}"),
        "expires": _("expires {time}"),
        "files": _("Files: {count}, {size} in all"),
        "files_more": _("Files: more than {count}; the latest have {size}"),
        "kib": _("{number} KiB"),
        "mib": _("{number} MiB"),
    }
