"""GET /v1/limits."""

import math
import time
from collections.abc import Sequence

from django.http import HttpResponse
from redis.exceptions import RedisError
from rest_framework.request import Request

from domain.limit_state import LimitState
from domain.limits import KINDS, Amount, Level
from domain.money import decimal_text
from domain.qos import SERVED_TIER, QosClass
from gateway.catalogue import allows
from gateway.errors import ApiError, Refusal, refuse
from gateway.openapi import limits_schema
from gateway.runtime import Runtime, runtime
from gateway.schema.account import LimitNow, LimitsReport, QueueNow
from gateway.scopes import USAGE
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response
from tenants.live_limits import complete_limits, read_limits_async
from tenants.snapshot import Principal

_SAMPLE = 100
_COUNTS = {
    Amount.REQUESTS: "requests",
    Amount.INPUT: "input_tokens",
    Amount.OUTPUT: "output_tokens",
    Amount.TOKENS: "tokens",
    Amount.COST: "cost",
}


class Limits(DataView):
    """What the caller may take."""

    scope = USAGE

    @limits_schema
    async def get(self, request: Request) -> HttpResponse:
        """List your tenant's limits and your key's, how far each is used, and how long requests wait."""
        caller, here = principal_of(request), runtime()
        models = [model for model in here.models() if allows(caller, model)]
        classes = [qos_class for qos_class in QosClass if qos_class >= caller.best_class]
        try:
            async with here.reading:
                limits = await read_limits_async(here.ready.redis, caller.tenant_id, caller.limits, caller.key_id)
                queues = await _read_queues(here, models, classes)
        except (RedisError, OSError) as error:
            raise refuse(Refusal.STORE_UNAVAILABLE, "The gateway cannot read limits at the moment.") from error
        limits = await _completed(here, caller, limits)
        report = LimitsReport(
            object="limits",
            at=int(time.time()),
            tenant=caller.tenant,
            plan=caller.plan,
            key=caller.key_prefix,
            scopes=sorted(caller.scopes),
            best_class=caller.best_class.value,
            service_tiers=[SERVED_TIER[qos_class] for qos_class in classes],
            models=models,
            currency=here.config.currency,
            limits=[_shown(state) for state in limits],
            queues=queues,
        )
        return json_response(report)


async def _completed(here: Runtime, caller: Principal, limits: list[LimitState]) -> list[LimitState]:
    """Ask the database where the store began anew; if it is away, the states say that they are not known."""
    if all(state.known for state in limits):
        return limits
    try:
        return await here.database.ask(
            caller.tenant_id, lambda: complete_limits(limits, caller.tenant_id, caller.key_id)
        )
    except ApiError:
        return limits


async def _read_queues(here: Runtime, models: Sequence[str], classes: Sequence[QosClass]) -> list[QueueNow]:
    names = [(model, qos_class) for model in models for qos_class in classes]
    pipeline = here.ready.redis.pipeline(transaction=False)
    for model, qos_class in names:
        pipeline.zcard(f"sl:ready:{model}:{qos_class.value}")
        pipeline.lrange(f"sl:waits:{model}:{qos_class.value}", 0, _SAMPLE - 1)
    replies = await pipeline.execute()
    return [
        _queue(model, qos_class, waiting, sorted(int(wait) for wait in waits))
        for (model, qos_class), waiting, waits in zip(names, replies[::2], replies[1::2], strict=True)
    ]


def _queue(model: str, qos_class: QosClass, waiting: int, waits_ms: list[int]) -> QueueNow:
    def percentile(share: float) -> int | None:
        return waits_ms[math.ceil(share * len(waits_ms)) - 1] if waits_ms else None

    return QueueNow(
        *(model, qos_class.value, SERVED_TIER[qos_class], waiting, len(waits_ms)), percentile(0.5), percentile(0.95)
    )


def _shown(state: LimitState) -> LimitNow:
    kind = KINDS[state.name]

    def amount(value: int) -> int | str:
        return decimal_text(value) if kind.amount is Amount.COST else value

    return LimitNow(
        name=state.name,
        level="tenant" if state.level is Level.TENANT else "key",
        counts=_COUNTS[kind.amount],  # type: ignore[arg-type]  # the values are those of the literal
        per=kind.span.value,
        limit=amount(state.limit),
        used=amount(state.used),
        held=amount(state.held),
        remaining=amount(state.remaining),
        resets_at=None if state.resets_at is None else math.ceil(state.resets_at / 1000),
        known=state.known,
        in_force=state.in_force,
    )
