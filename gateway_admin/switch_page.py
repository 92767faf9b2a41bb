"""The page that says what a switch will do, asks, and does it."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods
from redis.exceptions import RedisError

from gateway_admin import consequence
from gateway_admin.limits import limits_by_class
from gateway_admin.live import connect_for_page
from gateway_admin.models import SWITCHES, Action, Kind, Result, State, target_name
from gateway_admin.queues import QueuesView, QueueView, read_queues
from gateway_admin.switch import PERMISSION, STATE_AFTER, Target, last_switches, switch
from gateway_admin.wording import by_whom

_CONFLICT, _UNAVAILABLE = 409, 503


class SwitchForm(forms.Form):
    """What is to be done, and to what."""

    kind = forms.ChoiceField(choices=[(kind.value, kind.label) for kind in (Kind.QUEUE, Kind.WORKER)])
    target = forms.CharField(max_length=255)
    action = forms.ChoiceField(choices=SWITCHES)


class ConfirmedForm(SwitchForm):
    """The same once the operator has read what will happen."""

    seen = forms.ChoiceField(choices=State.choices)
    reason = forms.CharField(max_length=300, required=False)


@never_cache
@require_http_methods(["GET", "POST"])
def switch_page(request: HttpRequest) -> HttpResponse:
    """Ask on GET, act on POST.

    Raises:
        PermissionDenied: the operator may not switch.
        Http404: no such queue or worker.
    """
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    form = ConfirmedForm(request.POST) if request.method == "POST" else SwitchForm(request.GET)
    if not form.is_valid():
        raise Http404
    asked = form.cleaned_data
    target, action = Target(Kind(asked["kind"]), asked["target"]), Action(asked["action"])
    try:
        view = _read()
    except (RedisError, OSError) as error:
        return _page(request, target, action, {"error": str(error)}, _UNAVAILABLE)
    if not _is_known(target, view):
        raise Http404
    if request.method == "GET":
        return _ask(request, target, action, view)
    return _act(request, target, action, State(asked["seen"]), asked["reason"])


def _read() -> QueuesView:
    return read_queues(connect_for_page(settings.SLUICE.ready_url))


def _is_known(target: Target, view: QueuesView) -> bool:
    if target.field in view["states"]:
        return True  # what is switched can be opened, also when it is gone
    if target.kind == Kind.WORKER:
        return any(worker["id"] == target.name for worker in view["workers"])
    return _queue(target, view) is not None


def _queue(target: Target, view: QueuesView) -> QueueView | None:
    every = (queue for model in view["models"] for queue in model["queues"])
    return next((queue for queue in every if f"{queue['model']}:{queue['qos_class']}" == target.name), None)


def _act(request: HttpRequest, target: Target, action: Action, seen: State, reason: str) -> HttpResponse:
    operator = request.user
    assert isinstance(operator, User)  # the admin lets nobody else in
    row = switch(connect_for_page(settings.SLUICE.ready_url), operator, target, action, seen, reason)
    if row.outcome == Result.FAILED:
        return _page(request, target, action, {"error": row.get_outcome_display()}, _UNAVAILABLE)
    if row.outcome == Result.OVERTAKEN:
        return _ask(request, target, action, _read(), overtaken=True, reason=reason)
    told = _("%(target)s is %(state)s now.") if row.outcome == Result.DONE else _("%(target)s was %(state)s already.")
    names = {"target": target_name(target.kind, target.name), "state": STATE_AFTER[action].label}
    messages.success(request, told % names)
    return HttpResponseRedirect(reverse("queues"))


def _ask(
    request: HttpRequest, target: Target, action: Action, view: QueuesView, *, overtaken: bool = False, reason: str = ""
) -> HttpResponse:
    state = view["states"].get(target.field, State.OPEN)
    context = {
        "state": state,
        "by_whom": by_whom(last_switches({target.field: state}).get(target.field)),
        "already": state == STATE_AFTER[action],
        "consequence": _consequence(target, action, view),
        "overtaken": overtaken,
        "reason": reason,
    }
    return _page(request, target, action, context, _CONFLICT if overtaken else 200)


def _consequence(target: Target, action: Action, view: QueuesView) -> str:
    if target.kind == Kind.WORKER:
        worker = next((worker for worker in view["workers"] if worker["id"] == target.name), None)
        return consequence.of_worker(action, worker, view["workers"])
    queue = _queue(target, view)
    if queue is None:
        return ""
    return consequence.of_queue(action, queue, limits_by_class(settings.SLUICE)[queue["qos_class"]])


def _page(
    request: HttpRequest, target: Target, action: Action, context: dict[str, Any], status: int = 200
) -> HttpResponse:
    common = {
        **admin.site.each_context(request),
        "title": _("%(action)s: %(target)s")
        % {"action": action.label, "target": target_name(target.kind, target.name)},
        "target": target,
        "action": action,
    }
    return TemplateResponse(request, "operators/switch.html", {**common, **context}, status=status)
