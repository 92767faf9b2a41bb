"""Batches on the pages "Traces": found by their ids, and named by their requests."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from domain.trace.spans import span_id
from tenants.models import BulkJob, Plan, Tenant
from tests.integration.admin.made_batches import made
from tests.integration.admin.stored_requests import asked, keep
from tracing.store.writing import store

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))


def page(client: Client, name: str, *args: str) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


def request_of(job: BulkJob, number: int, **fields: Any) -> str:
    request_id = f"{job.trace_id[:8]}-{job.trace_id[8:12]}-4000-8000-{number:012x}"
    told = {"request_id": request_id, "trace_id": job.trace_id, "tenant": job.tenant.slug, "qos_class": "p2"}
    at_us = int(timezone.now().timestamp() * 1_000_000) - 5_000_000
    keep(asked(at_us, **{**told, **fields}))
    return request_id


def found(client: Client, text: str) -> list[str]:
    answer = client.get(reverse("traces"), {"q": text})
    assert answer.status_code == 200
    return re.findall(r'href="/admin/traces/([0-9a-f-]{36})"', answer.text)


def test_the_id_of_a_batch_or_its_beginning_leads_to_its_requests(admin_client: Client, tenant: Tenant) -> None:
    job = made(tenant, public_id="batch_abcdef" + "0" * 18)
    other = Tenant.objects.create(slug="bolt", name="Bolt", plan=tenant.plan)
    request = request_of(job, 1)
    request_of(job, 2, tenant=other.slug)  # somebody else's, in a trace of the same name
    request_of(made(other, 5), 3)

    assert found(admin_client, job.public_id) == [request]
    assert found(admin_client, job.public_id.upper()[:9]) == [request]
    assert found(admin_client, job.public_id[:8]) == []
    assert found(admin_client, "batch_123") == []


def test_a_request_names_its_batch(admin_client: Client, tenant: Tenant) -> None:
    job = made(tenant)
    other = Tenant.objects.create(slug="bolt", name="Bolt", plan=tenant.plan)
    mine, foreign, chat = request_of(job, 1), request_of(job, 2, tenant=other.slug), request_of(job, 3, qos_class="p1")

    text = page(admin_client, "trace", mine)
    assert "Part of a batch of acme:" in text
    assert reverse("batch", args=[job.public_id]) in text
    for request in (foreign, chat):
        assert "Part of a batch" not in page(admin_client, "trace", request)


def test_of_two_batches_in_one_trace_the_moments_tell_which(admin_client: Client, tenant: Tenant) -> None:
    first = made(tenant, 1)
    second = made(tenant, 2, trace_id=first.trace_id)
    parent = span_id(second.public_id, "bulk")
    at_us = int(timezone.now().timestamp() * 1_000_000) - 5_000_000
    told = {"trace_id": first.trace_id, "tenant": "acme", "qos_class": "p2"}
    known, other = asked(at_us, parent_id=parent, **told), asked(at_us, parent_id="f" * 16, **told)
    store([("slow", known), ("slow", other)])

    text = page(admin_client, "trace", known.request_id)
    assert second.public_id in text
    assert first.public_id not in text
    assert "Its parent is the client" not in text
    text = page(admin_client, "trace", other.request_id)
    assert "Part of a batch" not in text
    assert "Its parent is the client" in text
