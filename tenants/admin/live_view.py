"""Live limits as JSON: what the pages of tenants and keys ask for every two seconds."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django.conf import settings
from django.http import JsonResponse
from django.utils import timezone
from django.utils.timesince import timeuntil
from django.utils.translation import gettext as _
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from domain.limit_state import LimitState
from domain.limits import KINDS, Level, Limit, Span
from tenants.admin.figures import limit_label, limit_value
from tenants.live_limits import read_limits
from tenants.models import LIMIT_FIELDS, ApiKey, Tenant
from tenants.models.limits import Limited, limits_of

_TIMEOUT_S = 1.0
_MINUTE_S = 60
_NEARLY_FULL = 0.9


def live_state(tenant: Tenant, key: ApiKey | None = None) -> JsonResponse:
    """How far the limits of a tenant, or of a tenant and one of its keys, are used.

    ``error`` is empty while Valkey answers; else the rows carry the caps alone.
    """
    limits = _limits(Level.TENANT, tenant.plan) + (() if key is None else _limits(Level.KEY, key))
    error, states = "", []
    try:
        states = read_limits(_connect(settings.SLUICE.ready_url), tenant.pk, limits, None if key is None else key.pk)
    except (RedisError, OSError) as problem:
        error = str(problem)
    return JsonResponse(
        {
            "error": error,
            "at": timezone.now().timestamp(),
            "limits": [_row(state) for state in _sorted(states)] or [_unknown(limit) for limit in limits],
        },
        headers={"Cache-Control": "no-store"},
    )


@lru_cache(4)
def _connect(url: str) -> "Redis":
    # It gives up fast, since a person waits for the page.
    return Redis.from_url(
        url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
    )


def _limits(level: Level, row: Limited) -> tuple[Limit, ...]:
    return limits_of(level, [getattr(row, name) for name in LIMIT_FIELDS])


def _sorted(states: list[LimitState]) -> list[LimitState]:
    """By name, and of one name the limit first that leaves less."""
    names = list(KINDS)
    return sorted(states, key=lambda state: (names.index(state.name), not state.in_force))


def _row(state: LimitState) -> dict[str, Any]:
    return {
        **_unknown(Limit(state.level, state.name, state.limit)),
        "used": limit_value(state.name, state.used),
        "held": limit_value(state.name, state.held) if state.held else "",
        "left": limit_value(state.name, state.remaining),
        "used_share": _share(state.used, state.limit),
        "held_share": _share(state.held, state.limit),
        "level": _level(state),
        "resets": _resets(state),
        "known": state.known,
        "in_force": state.in_force,
    }


def _unknown(limit: Limit) -> dict[str, Any]:
    whose = _("this key") if limit.level is Level.KEY else _("the tenant's plan")
    return {
        "key": f"{limit.level}:{limit.name}",
        "name": limit_label(limit.name),
        "whose": whose,
        "cap": limit_value(limit.name, limit.cap),
        "used": "–",
        "held": "",
        "left": "–",
        "used_share": 0,
        "held_share": 0,
        "level": "",
        "resets": "",
        "known": True,
        "in_force": True,
    }


def _share(part: int, cap: int) -> float:
    return max(0.0, min(1.0, part / cap))


def _level(state: LimitState) -> str:
    if not state.remaining:
        return "full"
    return "near" if state.used + state.held >= _NEARLY_FULL * state.limit else ""


def _resets(state: LimitState) -> str:
    if state.resets_at is None:
        return _("as requests end")
    at = datetime.fromtimestamp(state.resets_at / 1000, UTC)
    seconds = (at - timezone.now()).total_seconds()
    if KINDS[state.name].span is Span.MINUTE:
        return _("all of it in %(seconds)d s") % {"seconds": round(seconds)} if seconds >= 1 else "–"
    if seconds < _MINUTE_S:
        return _("in less than a minute")
    return _("%(at)s, in %(time)s") % {"at": f"{at:%m-%d %H:%M}Z", "time": timeuntil(at, depth=1)}
