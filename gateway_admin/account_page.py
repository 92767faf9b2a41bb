"""The page on which tenants see their own limits and usage; it is open to everybody and knows nobody.

The person's API key stays in the browser: the page's script asks ``/v1/limits`` and ``/v1/usage`` with it, as any
client does. Nothing on this side ever sees it.
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
    }
