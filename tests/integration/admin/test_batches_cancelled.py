"""Cancelling a batch for a tenant: what is asked first, what is written, and which role may."""

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse

from gateway_admin.models import OperatorAction
from gateway_admin.roles import Role
from tenants.models import BulkJob, Plan, Tenant
from tests.integration.admin.made_batches import ended, made, sliced

pytestmark = pytest.mark.django_db


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))


@pytest.fixture(params=list(Role))
def person(request: pytest.FixtureRequest, client: Client, db: None) -> tuple[Client, Role]:
    role: Role = request.param
    user = User.objects.create_user(f"{role.value}-person", is_staff=True)
    user.groups.add(Group.objects.get(name=role.value))
    client.force_login(user)
    return client, role


def page(client: Client, name: str, *args: str) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


def test_reading_what_cancelling_does_changes_nothing(admin_client: Client, tenant: Tenant) -> None:
    job = sliced(made(tenant), {"completed": 390, "failed": 10})

    text = page(admin_client, "batch-cancel", job.public_id)

    assert "The 400 results so far are kept" in text
    assert "The 600 requests without a result get none" in text
    assert not OperatorAction.objects.exists()
    assert BulkJob.objects.get().status == "in_progress"


def test_a_cancelled_batch_is_in_the_records_with_its_reason(
    admin_client: Client, admin_user: User, tenant: Tenant
) -> None:
    job = made(tenant, waiting_for="queue_full")

    answer = admin_client.post(reverse("batch-cancel", args=[job.public_id]), {"reason": "it starves others"})

    assert answer.headers["Location"] == reverse("batch", args=[job.public_id])
    job.refresh_from_db()
    assert (job.status, job.waiting_for) == ("cancelling", "")
    row = OperatorAction.objects.get()
    assert (row.operator, row.kind, row.action, row.target) == (admin_user, "batch", "cancel", job.public_id)
    assert (row.reason, row.outcome, row.target_name) == ("it starves others", "done", job.public_id)
    entry = LogEntry.objects.get_for_object(job).get()
    assert entry.changes_dict == {"status": ["in_progress", "cancelling"], "reason": ["", "it starves others"]}
    assert "it starves others" in page(admin_client, "batch", job.public_id)
    assert "it starves others" in page(admin_client, "admin:gateway_admin_operatoraction_changelist")
    assert job.public_id in page(admin_client, "admin:auditlog_logentry_changelist")


def test_cancelling_twice_is_no_harm(admin_client: Client, tenant: Tenant) -> None:
    job = made(tenant)
    for _ in range(2):
        assert admin_client.post(reverse("batch-cancel", args=[job.public_id])).status_code == 302

    assert [row.outcome for row in OperatorAction.objects.all()] == ["unchanged", "done"]
    assert LogEntry.objects.get_for_object(job).count() == 1
    text = page(admin_client, "batch-cancel", job.public_id)
    assert "cannot be cancelled any more (by admin, just now)" in text
    assert reverse("batch-cancel", args=[job.public_id]) not in page(admin_client, "batch", job.public_id)


def test_one_that_ended_meanwhile_is_told(admin_client: Client, tenant: Tenant) -> None:
    job = ended(tenant, 1)

    answer = admin_client.post(reverse("batch-cancel", args=[job.public_id]))

    assert answer.status_code == 409
    assert "Not done: the batch ended while you read. Its status is now: Completed." in answer.text
    assert OperatorAction.objects.get().outcome == "overtaken"
    assert BulkJob.objects.get().status == "completed"


def test_each_role_sees_batches_and_two_may_cancel(person: tuple[Client, Role], tenant: Tenant) -> None:
    client, role = person
    job = made(tenant)
    may = role in (Role.OPERATOR, Role.ADMIN)

    assert reverse("batches") in page(client, "admin:index")
    assert client.get(reverse("batches-state")).json()["figures"]["open"] == 1
    assert (reverse("batch-cancel", args=[job.public_id]) in page(client, "batch", job.public_id)) is may
    for method in (client.get, client.post):
        status = method(reverse("batch-cancel", args=[job.public_id])).status_code
        assert (status != 403) is may, status
    assert (BulkJob.objects.get().status == "cancelling") is may


def test_who_has_no_role_sees_nothing(client: Client, tenant: Tenant) -> None:
    job = made(tenant)
    client.force_login(User.objects.create_user("clerk", is_staff=True))

    for name, args in (("batches", []), ("batches-state", []), ("batch", [job.public_id])):
        assert client.get(reverse(name, args=args)).status_code == 403
    for name in ("batch-state", "batch-cancel"):
        assert client.get(reverse(name, args=[job.public_id])).status_code == 403
    assert reverse("batches") not in page(client, "admin:index")
