"""A customer that is billed: a plan with every limit, usage over days, prices, corrections, warnings, live counts."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.utils import timezone
from redis import Redis

from tenants.models import NANO, Adjustment, ApiKey, BudgetWarning, Plan, Price, Tenant, UsageRollup
from tenants.provision import create_key

MODEL = "smollm2-135m-instruct"
SPENT_NANO = 966_200_000_000


@dataclass
class Customer:
    plan: Plan
    tenant: Tenant
    key: ApiKey
    small_key: ApiKey


def make_customer(slug: str = "acme") -> Customer:
    """A tenant on a plan with every limit, one key without limits of its own and one with some."""
    plan = Plan.objects.create(
        name=f"{slug}-gold",
        max_concurrent=40,
        requests_per_minute=600,
        tokens_per_minute=200_000,
        input_tokens_per_minute=150_000,
        output_tokens_per_minute=60_000,
        requests_per_day=50_000,
        input_tokens_per_day=20_000_000,
        output_tokens_per_day=6_000_000,
        tokens_per_month_soft=700_000_000,
        tokens_per_month=900_000_000,
        cost_per_month_soft=Decimal("800.00"),
        cost_per_month=Decimal("1000.00"),
    )
    tenant = Tenant.objects.create(slug=slug, name=f"{slug.title()} Inc", plan=plan, alert_email="ops@example.com")
    key, _ = create_key(tenant, "web shop")
    small_key, _ = create_key(tenant, "nightly reports")
    small_key.requests_per_minute, small_key.tokens_per_minute = 60, 500_000
    small_key.allowed_addresses = ["203.0.113.0/24"]
    small_key.save()
    return Customer(plan, tenant, key, small_key)


def add_sums(
    key: ApiKey, period: UsageRollup.Period, starts_at: datetime, requests: int, tokens: int = 100, model: str = MODEL
) -> UsageRollup:
    """So many requests in one hour or day, of so many prompt tokens and half as many answer tokens each."""
    return UsageRollup.objects.create(
        period=period,
        starts_at=starts_at,
        tenant=key.tenant,
        key=key,
        model=model,
        qos_class="p1",
        requests=requests,
        completed=requests - requests // 20,
        failed=requests // 40,
        prompt_tokens=requests * tokens,
        cached_tokens=requests * tokens // 3,
        completion_tokens=requests * tokens // 2,
        cost_nano=requests * tokens * 2_000,
    )


def add_history(customer: Customer, now: datetime) -> None:
    """Usage of 30 days and 24 hours that rises and falls."""
    hour = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    for back in range(30):
        requests = 14_000 + 6_000 * ((back * 7) % 5) - (9_000 if back % 7 in (2, 3) else 0)
        add_sums(customer.key, UsageRollup.Period.DAY, hour.replace(hour=0) - timedelta(days=back), requests, 700)
    for back in range(24):
        requests = 300 + 220 * ((back * 5) % 7)
        add_sums(customer.key, UsageRollup.Period.HOUR, hour - timedelta(hours=back), requests, 700)


def add_money(customer: Customer, now: datetime) -> None:
    """A price in force, one to come, a credit, and a warning that was given."""
    amounts = [Decimal("0.500"), Decimal("0.100"), Decimal("1.500")]
    names = ("input_per_million", "cached_input_per_million", "output_per_million")
    Price.objects.create(model=MODEL, valid_from=now - timedelta(days=40), **dict(zip(names, amounts, strict=True)))
    Price.objects.create(model=MODEL, valid_from=now + timedelta(days=9), **dict.fromkeys(names, Decimal("0.400")))
    month = now.date().replace(day=1)
    Adjustment.objects.create(
        tenant=customer.tenant,
        month=month,
        cost_nano=-25 * NANO,
        reason="outage of 12 November",
        made_by_name="finance",
    )
    BudgetWarning.objects.create(
        tenant=customer.tenant,
        month=month,
        kind="cost",
        bound="soft",
        spent=801 * NANO,
        limit=800 * NANO,
        done=True,
        told={"mail": "", "webhook": "the address answered with 500"},
    )


def fill_counts(store: "Redis", customer: Customer) -> None:
    """What the admission script would have counted: some limits nearly used up, some hardly."""
    tenant, now = customer.tenant.pk, timezone.now()
    seconds, _micros = store.time()
    store.set("sl:born", 1)
    store.hset(f"sl:rate:t:{tenant}", mapping={"r": 130, "i": 90_000, "o": 52_000, "t": 9_000, "at": seconds * 1000})
    store.sadd(f"sl:slots:t:{tenant}", *(f"r{number}" for number in range(40)))
    day = {"since": 1, "base": 1, "r": 14_000, "i": 9_800_000, "o": 4_900_000, "hr": 40, "hi": 120_000, "ho": 760_000}
    month = {"since": 1, "base": 1, "i": 495_600_000, "o": 247_800_000, "hi": 120_000, "ho": 760_000, "a": 0}
    store.hset(f"sl:spent:t:{tenant}:d{now:%Y%m%d}", mapping=day)
    store.hset(f"sl:spent:t:{tenant}:m{now:%Y%m}", mapping={**month, "c": SPENT_NANO, "hc": 3 * NANO})
