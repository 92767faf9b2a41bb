"""GET /v1/usage: what a tenant is told of its usage."""

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest
from django.db import OperationalError
from http_face import KEY, Pipeline

from gateway import database
from gateway.runtime import runtime
from gateway.views import usage as view
from tenants import usage_report
from tenants.models import Adjustment, ApiKey, Plan, Tenant
from tenants.usage import UsageRow, record_usage

pytestmark = pytest.mark.django_db(transaction=True)

TWO_DAYS = ("2026-03-14", "2026-03-16")


def row(number: int, at: datetime, tenant_id: int = 1, **fields: Any) -> UsageRow:
    """A request that took 10 prompt tokens, 4 of them cached, and 5 of answer, and cost 0.0000015."""
    told: dict[str, Any] = dict.fromkeys(UsageRow.__dataclass_fields__, "") | {
        "request_id": f"r{number}",
        "tenant_id": tenant_id,
        "key_id": 1,
        "model": "m1",
        "qos_class": "p1",
        "endpoint": "chat",
        "stream": False,
        "outcome": "completed",
        "status": 200,
        "prompt_tokens": 10,
        "cached_tokens": 4,
        "completion_tokens": 5,
        "cost_nano": 1_500,
        "price_id": None,
        "retry_attempt": 0,
        "admitted_at": at,
        "claimed_at": None,
        "first_token_at": None,
        "finished_at": at,
    }
    return UsageRow(**{**told, **fields})


@pytest.fixture
def tenants(db: None) -> Tenant:
    """Two tenants; the first has a budget."""
    plan = Plan.objects.create(
        name="gold", cost_per_month=Decimal("2.50"), cost_per_month_soft=Decimal("2.00"), tokens_per_month_soft=20
    )
    first = Tenant.objects.create(pk=1, slug="acme", name="Acme", plan=plan)
    Tenant.objects.create(pk=2, slug="bolt", name="Bolt", plan=plan)
    ApiKey.objects.create(pk=1, tenant=first, name="shop", prefix="abcd1234", digest="0" * 64)
    return first


@pytest.fixture
def used(tenants: Tenant) -> None:
    """Four requests of the first tenant over two days of March 2026, and one of another's."""
    noon, evening = datetime(2026, 3, 14, 12, 30, tzinfo=UTC), datetime(2026, 3, 15, 23, 59, tzinfo=UTC)
    record_usage(
        [
            row(1, noon),
            row(2, noon, key_id=99, outcome="failed", status=502),
            row(3, noon + timedelta(hours=1), model="m2", qos_class="p2"),
            row(4, evening),
            row(5, noon, tenant_id=2),
        ]
    )


def ask(client: httpx.Client, **query: str) -> dict[str, Any]:
    answer = client.get("/v1/usage", params=query)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


@pytest.mark.usefixtures("used")
def test_usage_by_day_is_the_tenants_own_and_exact(client: httpx.Client) -> None:
    told = ask(client, start=TWO_DAYS[0], end=TWO_DAYS[1])

    assert [(one["requests"], one["completed"], one["failed"]) for one in told["data"]] == [(3, 2, 1), (1, 1, 0)]
    assert told["data"][0]["starts_at"] == datetime(2026, 3, 14, tzinfo=UTC).timestamp()
    assert told["totals"] == {
        "requests": 4,
        "completed": 3,
        "failed": 1,
        "prompt_tokens": 40,
        "cached_tokens": 16,
        "completion_tokens": 20,
        "cost": "0.000006",
    }
    assert "model" not in told["data"][0]
    assert (told["bucket"], told["group_by"], told["currency"]) == ("day", [], "USD")


@pytest.mark.usefixtures("used")
@pytest.mark.parametrize(
    ("group_by", "groups"),
    [
        ("model", [("m1", None, None, 3), ("m2", None, None, 1)]),
        ("class", [(None, None, "p1", 3), (None, None, "p2", 1)]),
        ("key", [(None, ("shop", "abcd1234"), None, 3), (None, ("", ""), None, 1)]),
        ("model,class", [("m1", None, "p1", 3), ("m2", None, "p2", 1)]),
    ],
)
def test_usage_is_told_apart_by_what_is_asked(
    client: httpx.Client, group_by: str, groups: list[tuple[Any, ...]]
) -> None:
    data = ask(client, start="2026-03-01", end="2026-04-01", bucket="month", group_by=group_by)["data"]

    def key_of(one: dict[str, Any]) -> tuple[str, str] | None:
        return (one["key"]["name"], one["key"]["prefix"]) if "key" in one else None

    assert [(one.get("model"), key_of(one), one.get("class"), one["requests"]) for one in data] == groups


@pytest.mark.usefixtures("used")
def test_buckets_are_whole_and_hours_are_hours(client: httpx.Client) -> None:
    told = ask(client, start="2026-03-14T13:10", end="2026-03-15T23:59:01Z", bucket="hour")

    starts = [datetime.fromtimestamp(one["starts_at"], UTC) for one in told["data"]]
    assert [(start.day, start.hour) for start in starts] == [(14, 13), (15, 23)]
    assert told["end"] - told["start"] == 35 * 3600


def test_the_budget_of_this_month_counts_corrections(client: httpx.Client, tenants: Tenant) -> None:
    now = datetime.now(UTC)
    record_usage([row(1, now, cost_nano=1_000_000_000), row(2, now - timedelta(days=40), cost_nano=9_000_000_000)])
    Adjustment.objects.create(tenant=tenants, month=now.date().replace(day=1), cost_nano=-250_000_000, tokens=7)

    told = ask(client)

    assert told["totals"]["cost"] == "1.00"
    assert told["budget"]["cost"] == {"soft": "2.00", "hard": "2.50", "spent": "0.75", "remaining": "1.75"}
    assert told["budget"]["tokens"] == {"soft": 20, "hard": None, "spent": 22, "remaining": None}


def test_a_tenant_that_used_nothing_is_told_so(client: httpx.Client, tenants: Tenant) -> None:
    told = ask(client)

    assert (told["data"], told["totals"]["requests"], told["totals"]["cost"]) == ([], 0, "0.00")


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("bucket=week", "bucket"),
        ("bucket=day&bucket=hour", "bucket"),
        ("group_by=tenant", "group_by"),
        ("tenant=2", "tenant"),
        ("tenant_id=2", "tenant_id"),
        ("start=yesterday", "start"),
        ("start=99999999999999999999", "start"),
        ("start=0001-01-01T00:00:00%2B09:00", "start"),
        ("end=2026-13-01", "end"),
        ("start=2026-03-02&end=2026-03-01", "end"),
        ("start=2026-01-01&end=2026-03-01&bucket=hour", "start"),
        ("start=2021-01-01&end=2026-03-01", "start"),
        ("start=%00", "start"),
    ],
)
def test_a_question_that_cannot_be_answered_names_the_parameter(
    client: httpx.Client, behind: Pipeline, query: str, param: str
) -> None:
    answer = client.get(f"/v1/usage?{query}")

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


@pytest.mark.usefixtures("used")
def test_more_rows_than_anybody_reads_are_refused(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage_report, "MAX_ROWS", 1)

    answer = client.get("/v1/usage", params={"start": TWO_DAYS[0], "end": TWO_DAYS[1]})

    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "group_by")


def test_without_the_database_usage_is_503_and_models_go_on(
    client: httpx.Client, behind: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("no route")

    monkeypatch.setattr(view, "read_usage", away)

    answer = client.get("/v1/usage")
    assert (answer.status_code, answer.json()["error"]["reason"]) == (503, "usage_unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    body = {"model": runtime().config.model_name, "messages": [{"role": "user", "content": "hi"}]}
    assert client.post("/v1/chat/completions", json=body).status_code == 200


def test_a_slow_database_is_not_waited_for_and_one_tenant_does_not_use_up_all_threads(
    client: httpx.Client, behind: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(database, "PATIENCE_S", 0.2)
    monkeypatch.setattr(view, "read_usage", lambda *_: go_on.wait(30))
    try:
        first = [client.get("/v1/usage") for _ in range(database.MAX_EACH)]
        more = client.get("/v1/usage")
    finally:
        go_on.set()

    assert [answer.status_code for answer in (*first, more)] == [503] * 3
    assert "Too much" in more.json()["error"]["message"]
    assert KEY not in more.text
