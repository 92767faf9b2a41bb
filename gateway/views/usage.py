"""GET /v1/usage."""

from collections.abc import Sequence
from datetime import UTC, datetime

from django.conf import settings
from django.http import HttpResponse
from rest_framework.request import Request

from domain.money import decimal_text
from gateway.errors import ApiError
from gateway.openapi import usage_schema
from gateway.runtime import runtime
from gateway.schema.account import (
    CostBudget,
    KeyShown,
    MonthReport,
    TokenBudget,
    UsageBucket,
    UsageReport,
    UsageTotals,
)
from gateway.scopes import USAGE
from gateway.usage_query import UsageQuery, read_query
from gateway.views.base import DataView, principal_of
from gateway.views.json import json_response
from tenants.usage_report import (
    MAX_ROWS,
    Budget,
    KeyName,
    Month,
    TooManyRows,
    Used,
    key_names,
    read_month,
    read_usage,
)


class Usage(DataView):
    """What the caller's tenant used."""

    scope = USAGE

    @usage_schema
    async def get(self, request: Request) -> HttpResponse:
        """Sum up your tenant's usage by time, and by model, key and class; with the month's budget."""
        tenant_id, now = principal_of(request).tenant_id, datetime.now(UTC)
        query = read_query(request.query_params, now)
        report = await runtime().database.ask(tenant_id, lambda: _report(tenant_id, query, now))
        return json_response(report)


def _report(tenant_id: int, query: UsageQuery, now: datetime) -> UsageReport:
    try:
        rows = read_usage(tenant_id, query.start, query.end, query.bucket, query.groups)
    except TooManyRows:
        message = f"The answer would have more than {MAX_ROWS} buckets. Shorten the time, or group by less."
        raise ApiError(400, message, param="group_by", code="invalid_value") from None
    names = key_names(tenant_id) if "key" in query.groups else {}
    return UsageReport(
        object="usage",
        start=_seconds(query.start),
        end=_seconds(query.end),
        bucket=query.bucket,
        group_by=list(query.groups),
        currency=settings.SLUICE.currency,
        data=[_bucket(row, names) for row in rows],
        totals=_totals(rows),
        budget=_month(read_month(tenant_id, now)),
    )


def _bucket(row: Used, names: dict[int, KeyName]) -> UsageBucket:
    key = None if row.key_id is None else KeyShown(row.key_id, *names.get(row.key_id, KeyName("", "")))
    return UsageBucket(
        starts_at=_seconds(row.starts_at),
        requests=row.requests,
        completed=row.completed,
        failed=row.failed,
        prompt_tokens=row.prompt_tokens,
        cached_tokens=row.cached_tokens,
        completion_tokens=row.completion_tokens,
        cost=decimal_text(row.cost_nano),
        model=row.model,
        key=key,
        qos_class=row.qos_class,
    )


def _totals(rows: Sequence[Used]) -> UsageTotals:
    return UsageTotals(
        requests=sum(row.requests for row in rows),
        completed=sum(row.completed for row in rows),
        failed=sum(row.failed for row in rows),
        prompt_tokens=sum(row.prompt_tokens for row in rows),
        cached_tokens=sum(row.cached_tokens for row in rows),
        completion_tokens=sum(row.completion_tokens for row in rows),
        cost=decimal_text(sum(row.cost_nano for row in rows)),
    )


def _month(month: Month) -> MonthReport:
    tokens, cost = month.tokens, month.cost
    return MonthReport(
        starts_at=_seconds(month.starts_at),
        resets_at=_seconds(month.ends_at),
        tokens=TokenBudget(tokens.soft, tokens.hard, tokens.spent, _left(tokens)),
        cost=CostBudget(_money(cost.soft), _money(cost.hard), decimal_text(cost.spent), _money(_left(cost))),
    )


def _left(budget: Budget) -> int | None:
    return None if budget.hard is None else max(0, budget.hard - budget.spent)


def _money(nano: int | None) -> str | None:
    return None if nano is None else decimal_text(nano)


def _seconds(moment: datetime) -> int:
    return int(moment.timestamp())
