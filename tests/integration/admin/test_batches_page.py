"""The pages "Batches" and of one batch: figures, order, who sees them, and what is never shown."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries

from gateway_admin import batches as stands
from gateway_admin.batches_rate import RateMemory
from gateway_admin.models import OperatorAction
from tenants.models import BulkJob, Plan, StoredFile, Tenant
from tests.integration.admin.made_batches import SECRET, ago, ended, made, sliced

HOSTILE = "<script>alert('x')</script>"

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stands, "_memory", RateMemory())


@pytest.fixture
def tenant(db: None) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=Plan.objects.create(name="gold"))


def state(client: Client, **query: object) -> dict[str, Any]:
    answer = client.get(reverse("batches-state"), query)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


def page(client: Client, name: str, *args: str) -> str:
    answer = client.get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in rows]


def test_before_any_batch_the_page_says_how_a_tenant_makes_one(admin_client: Client) -> None:
    text = page(admin_client, "batches")

    assert state(admin_client)["is_empty"]
    assert "POST /v1/batches" in text
    assert reverse("schema-docs") in text


def test_open_batches_come_first_by_expiry_and_ended_ones_by_age(admin_client: Client, tenant: Tenant) -> None:
    late, soon = made(tenant, 1), made(tenant, 2, expires_at=timezone.now() + timedelta(hours=1))
    old, new = ended(tenant, 3, created_at=ago(days=2)), ended(tenant, 4, "failed", created_at=ago(days=1))

    found = state(admin_client)

    assert ids(found["open"]) == [soon.public_id, late.public_id]
    assert ids(found["ended"]) == [new.public_id, old.public_id]
    assert found["is_empty"] is False


def test_figures_are_those_of_the_slices(admin_client: Client, tenant: Tenant) -> None:
    job = sliced(made(tenant), {"completed": 300, "failed": 4}, {"completed": 96, "state": "done"})

    found = state(admin_client)

    (view,) = found["open"]
    assert (view["completed"], view["failed"], view["total"]) == (396, 4, 1_000)
    assert (view["tenant"], view["model"], view["status_name"]) == ("acme", "m1", "In progress")
    assert view["per_minute"] == pytest.approx(400 / 60, rel=0.01)
    assert view["rate_note"] == "mean since it began, 1 h ago"
    assert view["end"]["when"] == "in 1 h 30 min"
    assert view["end"]["note"] == "21 h 30 min before it expires"
    assert (view["warning"], found["troubles"]) == ("", [])
    assert found["figures"]["left"] == 600
    assert view["url"] == reverse("batch", args=[job.public_id])


def test_a_batch_that_ends_too_late_is_said_in_words(admin_client: Client, tenant: Tenant) -> None:
    slow = made(tenant, created_at=ago(hours=23))
    sliced(slow, {"completed": 460})

    found = state(admin_client)

    (view,) = found["open"]
    assert (view["level"], view["end"]["level"]) == ("bad", "bad")
    assert view["end"]["note"] == "1 d 2 h after it expires"
    assert "about 520 requests will have no answer" in view["warning"]
    assert [trouble["id"] for trouble in found["troubles"]] == [slow.public_id]
    assert found["figures"]["late"] == 1


def test_one_that_stands_still_says_why(admin_client: Client, tenant: Tenant) -> None:
    job = sliced(made(tenant, waiting_for="requests_per_day"), {"completed": 400})
    stands._memory.note(job.pk, timezone.now().timestamp() - 240, 400)

    (view,) = state(admin_client)["open"]

    assert (view["per_minute"], view["end"]["when"], view["level"]) == (0, "none in sight", "wait")
    assert view["warning"] == (
        "Not one of its requests has ended for 4 min: the tenant's requests of this day are used up."
    )
    assert view["waits"] == "the tenant's requests of this day are used up"


def test_the_last_minutes_count_once_somebody_has_looked_for_one(admin_client: Client, tenant: Tenant) -> None:
    job = sliced(made(tenant), {"completed": 400})
    stands._memory.note(job.pk, timezone.now().timestamp() - 120, 280)

    (view,) = state(admin_client)["open"]

    assert view["per_minute"] == pytest.approx(60, rel=0.01)
    assert view["rate_note"] == "in the last 2 min"
    assert view["end"]["when"] == "in 10 min"


def test_what_nobody_works_on_is_told_once_for_all(admin_client: Client, tenant: Tenant) -> None:
    waits = {"state": "waiting", "held_by": "", "held_until": None, "attempt": 0}
    sliced(made(tenant, 1), waits)
    sliced(made(tenant, 2), {"held_until": ago(minutes=5)})
    made(tenant, 3, status="validating", in_progress_at=None, created_at=ago(minutes=3), total=0)

    found = state(admin_client)

    assert [trouble["key"] for trouble in found["troubles"]] == ["nobody"]
    assert "manage.py up --bulk 1" in found["troubles"][0]["text"]
    assert found["open"][2]["warning"] == "Its file has waited 3 min to be checked."
    assert found["open"][0]["warning"] == "No process works on it: it waits for its turn."


def test_one_that_waits_for_its_turn_is_no_sign_of_death(admin_client: Client, tenant: Tenant) -> None:
    sliced(made(tenant, 1), {"completed": 400})
    waiting = sliced(made(tenant, 2), {"state": "waiting", "held_by": "", "held_until": None})

    assert ids(state(admin_client)["troubles"]) == [waiting.public_id]


def test_of_many_troubles_the_worst_are_named(admin_client: Client, tenant: Tenant) -> None:
    for number in range(8):
        sliced(made(tenant, number, created_at=ago(hours=23)), {"completed": 9})

    troubles = state(admin_client)["troubles"]

    assert len(troubles) == 6
    assert troubles[-1]["text"] == "3 other batches have trouble."


def test_tenant_and_status_narrow_both_lists(admin_client: Client, tenant: Tenant) -> None:
    other = Tenant.objects.create(slug="bolt", name="Bolt", plan=tenant.plan)
    mine, theirs = made(tenant, 1), made(other, 2)
    gone, refused = ended(other, 3), ended(tenant, 4, "failed")

    assert ids(state(admin_client, tenant="bolt")["open"]) == [theirs.public_id]
    assert ids(state(admin_client, tenant="bolt")["ended"]) == [gone.public_id]
    assert ids(state(admin_client, status="failed")["ended"]) == [refused.public_id]
    assert state(admin_client, status="failed")["open"] == []
    assert ids(state(admin_client, status="in_progress")["open"]) == [mine.public_id, theirs.public_id]
    assert state(admin_client, status="in_progress")["ended"] == []
    nobody = state(admin_client, tenant="nobody")
    assert (nobody["open"], nobody["ended"], nobody["is_empty"]) == ([], [], False)


@pytest.mark.parametrize("query", [{"page": "-1"}, {"page": "x"}, {"status": "lost"}, {"tenant": "x" * 65}])
def test_what_cannot_be_read_narrows_nothing(query: dict[str, str], admin_client: Client, tenant: Tenant) -> None:
    job = ended(tenant, 1)

    assert ids(state(admin_client, **query)["ended"]) == [job.public_id]
    assert admin_client.get(reverse("batches"), query).status_code == 200


def test_ten_thousand_ended_ones_are_paged_and_cost_no_more_queries(
    admin_client: Client, tenant: Tenant, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    statuses = ("completed", "failed", "expired", "cancelled")
    BulkJob.objects.bulk_create(
        BulkJob(
            tenant=tenant,
            public_id=f"batch_{number:024x}",
            endpoint="/v1/embeddings",
            status=statuses[number % 4],
            total=10,
            created_at=ago(minutes=number),
            expires_at=ago(minutes=number) + timedelta(hours=24),
        )
        for number in range(10_000)
    )
    for number in range(10_000, 10_120):
        sliced(made(tenant, number), {"completed": 400}, {})

    with django_assert_max_num_queries(18):
        found = state(admin_client)
    with django_assert_max_num_queries(18):
        last = state(admin_client, page=400)

    assert (len(found["open"]), found["open_total"], found["figures"]["is_part"]) == (100, 120, True)
    assert ids(found["ended"]) == [f"batch_{number:024x}" for number in range(25)]
    assert found["older"].endswith("?page=2")
    assert found["newer"] == ""
    assert ids(last["ended"]) == [f"batch_{number:024x}" for number in range(9_975, 10_000)]
    assert (last["older"], last["newer"].rpartition("?")[2]) == ("", "page=399")
    assert ids(state(admin_client, page=2, tenant="acme")["ended"]) == [f"batch_{n:024x}" for n in range(25, 50)]
    assert "tenant=acme" in state(admin_client, page=2, tenant="acme")["older"]


def test_the_page_of_a_batch_leads_to_its_requests_and_its_tenant(admin_client: Client, tenant: Tenant) -> None:
    job = sliced(made(tenant), {"completed": 5, "attempt": 2}, {"held_until": ago(seconds=9)}, {"state": "done"})
    StoredFile.objects.create(
        tenant=tenant, public_id=job.input_file_id, filename=SECRET, purpose="batch", size_bytes=2048
    )

    text = page(admin_client, "batch", job.public_id)
    told = admin_client.get(reverse("batch-state", args=[job.public_id])).json()

    assert f"{reverse('traces')}?q={job.public_id}" in text
    assert reverse("admin:tenants_tenant_change", args=[tenant.pk]) in text
    for shown in (job.trace_id, job.input_file_id, "2.0", "File checked, begun", "Expires", "/v1/chat/completions"):
        assert shown in text, shown
    assert SECRET not in text + str(told)
    assert told["batch"]["completed"] == 5
    first, lost, done = told["slices"]
    assert (first["number"], first["attempt"], first["held_by"], first["state_name"]) == (1, 2, "bulk-1", "Runs")
    assert (lost["state_name"], lost["tone"], done["state_name"]) == ("Lost", "failed", "Done")


def test_errors_of_its_file_are_told_by_line_and_without_what_it_says(admin_client: Client, tenant: Tenant) -> None:
    wrong = [
        {"code": "model_not_found", "line": 7, "message": f"The model '{SECRET}' does not exist.", "param": "body"},
        {"code": "empty_file", "line": None, "message": SECRET, "param": None},
        {"code": "brand_new", "line": 9, "message": SECRET, "param": None},
    ]
    job = ended(tenant, 1, "failed", errors=wrong)

    text = page(admin_client, "batch", job.public_id)

    assert SECRET not in text
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", text.partition('id="errors"')[2].partition("</table>")[0])
    assert cells[::3] == ["7", "–", "9"]
    assert cells[2::3] == ["model_not_found", "empty_file", "brand_new"]
    assert state(admin_client)["ended"][0]["errors"] == 3


def test_an_ended_batch_tells_its_times_in_order_and_is_not_asked_for_again(
    admin_client: Client, tenant: Tenant
) -> None:
    created = ago(hours=3)
    moments = {"cancelling_at": created + timedelta(minutes=2), "prompt_tokens": 50, "completion_tokens": 9}
    job = ended(tenant, 1, "cancelled", created_at=created, **moments)

    text = page(admin_client, "batch", job.public_id)
    told = admin_client.get(reverse("batch-state", args=[job.public_id])).json()

    steps = [text.index(f"<strong>{name}</strong>") for name in ("Made", "Cancelled", "To be cancelled")]
    assert steps == sorted(steps)
    assert "after 1 min" in text
    assert "50 (0) → 9" in text
    assert "<strong>Expires</strong>" not in text
    assert ("end" in told["batch"], told["slices"]) == (False, [])


def test_hostile_names_stay_text(admin_client: Client, tenant: Tenant) -> None:
    job = sliced(made(tenant, model=HOSTILE, waiting_for=HOSTILE[:40], endpoint=HOSTILE[:32]), {"held_by": HOSTILE})
    for name in ("batch", "batch-cancel"):
        text = page(admin_client, name, job.public_id)
        assert HOSTILE not in text
    assert state(admin_client)["open"][0]["waits"] == HOSTILE[:40]
    assert admin_client.get(reverse("batches"), {"tenant": HOSTILE}).text.count(HOSTILE) == 0


def test_a_batch_that_is_not_there_is_not_found(admin_client: Client) -> None:
    for name in ("batch", "batch-state", "batch-cancel"):
        assert admin_client.get(reverse(name, args=["batch_x"])).status_code == 404
    assert admin_client.post(reverse("batch-cancel", args=["batch_x"])).status_code == 404
    assert not OperatorAction.objects.exists()
