"""The page "Cache", the JSON that it asks for every two seconds, and the page that fixes what gateways evict by."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from redis.exceptions import RedisError

from domain.eviction.tuning import CHOICES
from gateway_admin.cache import CacheView, fix, last_fix, read_cache, read_fixed
from gateway_admin.live import connect_for_page
from gateway_admin.models import Kind, OperatorAction, Result, cache_choice
from gateway_admin.switch import PERMISSION
from gateway_admin.wording import by_whom

_CONFLICT, _UNAVAILABLE = 409, 503
_LAST_ACTIONS = 5
_EMPTY: CacheView = {"gateways": [], "decisions": [], "history": [], "store": None, "fixed": ""}


class FixForm(forms.Form):
    """What is to be fixed; nothing gives it back to the setting."""

    choice = forms.ChoiceField(choices=[(name, name) for name in CHOICES], required=False)


class ConfirmedForm(FixForm):
    """The same once the operator has read what will happen."""

    seen = forms.ChoiceField(choices=[(name, name) for name in CHOICES], required=False)
    reason = forms.CharField(max_length=300, required=False)


def cache(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`cache_state`."""
    context = {
        **admin.site.each_context(request),
        "title": _("Cache"),
        "may_switch": request.user.has_perm(PERMISSION),
        "choices": [(name, cache_choice(name)) for name in CHOICES],
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/cache.html", context)


@never_cache
def cache_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON; ``error`` is empty while Valkey answers."""
    try:
        view, error = read_cache(connect_for_page(settings.SLUICE.ready_url)), ""
    except (RedisError, OSError) as failure:
        view, error = _EMPTY, str(failure)
    actions = OperatorAction.objects.filter(kind=Kind.CACHE)[:_LAST_ACTIONS]
    state: dict[str, Any] = {
        **view,
        "setting": settings.SLUICE.cache_policy,
        "on": settings.SLUICE.response_cache,
        "store_max_bytes": settings.SLUICE.cache_store_mib << 20,
        "fixed_by": by_whom(last_fix(view["fixed"])).strip(),
        "actions": [_action(row) for row in actions],
        "error": error,
        "at": timezone.now().timestamp(),
    }
    return JsonResponse(state)


def _action(row: OperatorAction) -> dict[str, Any]:
    return {
        "id": row.pk,
        "at": row.at.timestamp(),
        "operator": row.operator_name,
        "action": row.get_action_display(),
        "target": cache_choice(row.target),
        "reason": row.reason,
        "outcome": row.get_outcome_display(),
    }


@never_cache
@require_http_methods(["GET", "POST"])
def cache_fix(request: HttpRequest) -> HttpResponse:
    """Ask on GET, act on POST.

    Raises:
        PermissionDenied: the operator may not switch.
        Http404: no such policy.
    """
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    form = ConfirmedForm(request.POST) if request.method == "POST" else FixForm(request.GET)
    if not form.is_valid():
        raise Http404
    asked, redis = form.cleaned_data, connect_for_page(settings.SLUICE.ready_url)
    if request.method == "GET":
        try:
            return _ask(request, asked["choice"], read_fixed(redis))
        except (RedisError, OSError) as error:
            return _page(request, asked["choice"], {"error": str(error)}, _UNAVAILABLE)
    operator = request.user
    assert isinstance(operator, User)  # the admin lets nobody else in
    row = fix(redis, operator, asked["choice"], asked["seen"], asked["reason"])
    if row.outcome == Result.FAILED:
        return _page(request, asked["choice"], {"error": row.get_outcome_display()}, _UNAVAILABLE)
    if row.outcome == Result.OVERTAKEN:
        return _ask(request, asked["choice"], read_fixed(redis), overtaken=True, reason=asked["reason"])
    messages.success(request, _told(asked["choice"]))
    return HttpResponseRedirect(reverse("cache"))


def _told(choice: str) -> str:
    if not choice:
        return _("Every gateway follows its setting again within seconds.")
    return _("Every gateway follows %(choice)s within seconds.") % {"choice": cache_choice(choice)}


def _ask(request: HttpRequest, choice: str, fixed: str, *, overtaken: bool = False, reason: str = "") -> HttpResponse:
    context = {
        "fixed": fixed,
        "fixed_name": cache_choice(fixed),
        "by_whom": by_whom(last_fix(fixed)),
        "already": fixed == choice,
        "overtaken": overtaken,
        "reason": reason,
    }
    return _page(request, choice, context, _CONFLICT if overtaken else 200)


def _page(request: HttpRequest, choice: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    title = _("Fix %(choice)s") % {"choice": cache_choice(choice)} if choice else _("Give it back to the setting")
    setting = cache_choice(settings.SLUICE.cache_policy)
    common = {**admin.site.each_context(request), "title": title, "choice": choice, "setting": setting}
    common["choice_name"] = cache_choice(choice)
    return TemplateResponse(request, "operators/cache_fix.html", {**common, **context}, status=status)


def page_words() -> dict[str, Any]:
    """Texts with which the page's script writes, in the language of the request."""
    return {
        "choices": {name: cache_choice(name) for name in CHOICES},
        "why": {
            "watermark": _("the memory watermark"),
            "hit_rate": _("a low hit rate"),
            "ghosts": _("its lead in hits"),
            "operator": _("an operator fixed it"),
            "setting": _("the setting"),
            "start": _("the start"),
        },
        "watermark_from": {"prometheus": _("from Prometheus"), "own": _("from its own figures")},
        "decides_setting": _("{choice}, as set"),
        "decides_fixed": _("{choice}, fixed"),
        "fixed": _("Fixed for all gateways: {choice} {by_whom}"),
        "follows": _("Every gateway follows its setting: {choice}."),
        "paused": _("An eviction took longer than 10 ms: K stays as it is for five minutes."),
        "off": _("Kept answers are switched off: SLUICE_RESPONSE_CACHE is false."),
        "reached": _("{share} of what any cache could have hit"),
        "answered_by": _("{hit_local} here, {hit_store} store, {coalesced} shared a run, {stale} stale"),
        "of": _("{used} of {most}"),
        "answers": _("{count} answers"),
        "in_force": _("in force"),
        "hit_rate": _("Hit rate"),
        "ceiling": _("Ceiling"),
        "watermark": _("Watermark"),
        "changed": _("{time} {gateway}: from {before} to {after}, because of {why}"),
        "chart": _("Hit rate, ceiling and watermark over time"),
    }
