"""The page "Queues" and the JSON that it asks for every two seconds."""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from redis.exceptions import RedisError

from gateway_admin.limits import limits_by_class
from gateway_admin.live import connect_for_page
from gateway_admin.live_page import state_names
from gateway_admin.models import SWITCHES, OperatorAction, State
from gateway_admin.queues import QueuesView, read_queues
from gateway_admin.switch import PERMISSION, last_switches
from gateway_admin.trouble import find_troubles
from gateway_admin.wording import by_whom
from tenants.models import QOS_CHOICES, Tenant

_EMPTY: QueuesView = {"models": [], "workers": [], "states": {}}
_LAST_ACTIONS = 10


def queues(request: HttpRequest) -> HttpResponse:
    """The page; all figures come from :func:`queues_state`."""
    context = {
        **admin.site.each_context(request),
        "title": _("Queues"),
        "may_switch": request.user.has_perm(PERMISSION),
        "may_search": request.user.has_perm("gateway_admin.view_operatoraction"),
        "actions": SWITCHES,
        "words": page_words(),
    }
    return TemplateResponse(request, "operators/queues.html", context)


@never_cache
def queues_state(request: HttpRequest) -> HttpResponse:
    """Everything the page shows, as JSON; ``error`` is empty while Valkey answers."""
    view, error = _read()
    limits = limits_by_class(settings.SLUICE)
    switched_by = last_switches(view["states"])
    state: dict[str, Any] = {
        "models": view["models"],
        "workers": view["workers"],
        "limits": limits,
        "weights": _weights(view),
        "switched_by": {field: by_whom(row).strip() for field, row in switched_by.items()},
        "troubles": find_troubles(view, limits, switched_by),
        "actions": [_action(row) for row in OperatorAction.objects.all()[:_LAST_ACTIONS]],
        "error": error,
        "at": timezone.now().timestamp(),
    }
    return JsonResponse(state)


def _read() -> tuple[QueuesView, str]:
    try:
        return read_queues(connect_for_page(settings.SLUICE.ready_url)), ""
    except (RedisError, OSError) as error:
        return _EMPTY, str(error)


def _weights(view: QueuesView) -> dict[str, float]:
    shown = {share["tenant"] for model in view["models"] for queue in model["queues"] for share in queue["shares"]}
    return dict(Tenant.objects.filter(slug__in=shown).values_list("slug", "plan__weight"))


def _action(row: OperatorAction) -> dict[str, Any]:
    return {
        "id": row.pk,
        "at": row.at.timestamp(),
        "operator": row.operator_name,
        "action": row.get_action_display(),
        "target": row.target_name,
        "previous_state": row.get_previous_state_display(),
        "reason": row.reason,
        "outcome": row.get_outcome_display(),
    }


def page_words() -> dict[str, Any]:
    """Texts with which the page's script writes, in the language of the request."""
    return {
        "classes": dict(QOS_CHOICES),
        "state": state_names(),
        "switch": dict(State.choices),
        "closed_by": {"time": _("its time was up"), "size": _("it was full"), "room": _("an engine had room")},
        "ms": _("%(number)d ms").replace("%(number)d", "{}"),
        "s": _("%(number)s s").replace("%(number)s", "{}"),
        "min": _("%(number)s min").replace("%(number)s", "{}"),
        "oldest": _("{waited} of {deadline}"),
        "ages": _("gets a turn from {ageing} on"),
        "tolerates": _("tolerates {tolerated}"),
        "over": _("over"),
        "window": _("{capacity} items at most; last closed after {waited}: {cause}"),
        "weight": _("weight {weight}"),
        "waiting": _("{count} waiting"),
        "others": _("{count} others"),
        "sequences": _("{running} running, {limit} at most"),
        "capped": _("{running} running, now {cap} of {limit} at most"),
        "reserve": _("{count} kept free for P0"),
        "drained": _("drained"),
        "quiet": _("Nothing is stuck: every queue is open and waits no longer than it tolerates."),
    }
