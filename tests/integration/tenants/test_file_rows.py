"""Rows of tenants' files, and lists of files and jobs: room, what is in use, and pages without gaps."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from domain.bulk.status import OPEN, JobStatus
from tenants.bulk import jobs
from tenants.files import rows as files
from tenants.files.disk import make_file_id
from tenants.models import ApiKey, BulkJob, Plan, StoredFile, Tenant
from tenants.provision import create_key
from tests.integration.tenants.bulk_rows import AT_ONCE, DAY, add_file, all_at_once, new_job, put


@pytest.fixture
def plan(db: None) -> Plan:
    return Plan.objects.create(name="gold", files_mib=10)


@pytest.fixture
def acme(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=plan)


@pytest.fixture
def other(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="other", name="Other", plan=plan)


@pytest.fixture
def key(acme: Tenant) -> ApiKey:
    return create_key(acme, "k")[0]


# --- files ----------------------------------------------------------------------------------------------------------


def test_files_that_an_open_job_reads_stay_though_they_have_expired(acme: Tenant, key: ApiKey) -> None:
    made = {status: jobs.create_job(new_job(acme, key)) for status in JobStatus}
    for status, job in made.items():
        put(job, status)
    StoredFile.objects.update(expires_at=timezone.now())
    kept = add_file(acme)

    gone = files.expired_ids(timezone.now(), 100)

    assert set(gone) == {job.input_file_id for status, job in made.items() if status not in OPEN}
    files.forget_files(gone)
    assert files.known_ids([*gone, kept.public_id]) == {kept.public_id}


@pytest.mark.parametrize("status", JobStatus)
def test_a_file_that_an_open_job_reads_is_not_deleted(
    status: JobStatus, acme: Tenant, other: Tenant, key: ApiKey
) -> None:
    job = jobs.create_job(new_job(acme, key))
    put(job, status)

    assert files.delete_file(other.pk, job.input_file_id) is False
    if status in OPEN:
        with pytest.raises(files.FileInUse) as used:
            files.delete_file(acme.pk, job.input_file_id)
        assert used.value.job_id == job.public_id
    else:
        assert files.delete_file(acme.pk, job.input_file_id) is True
        assert files.delete_file(acme.pk, job.input_file_id) is False


@pytest.mark.django_db(transaction=True)
def test_a_file_is_either_deleted_or_read_by_a_job_that_comes_at_the_same_moment(acme: Tenant, key: ApiKey) -> None:
    for _ in range(5):
        new = new_job(acme, key)
        works: list[Callable[[], object]] = [
            lambda new=new: jobs.create_job(new),  # type: ignore[misc]
            lambda new=new: files.delete_file(acme.pk, new.input_file_id),  # type: ignore[misc]
        ]
        made, deleted = all_at_once(works)
        first, second = (BulkJob, files.FileInUse) if isinstance(made, BulkJob) else (jobs.NoSuchFile, bool)
        assert (type(made), type(deleted)) == (first, second)


@pytest.mark.django_db(transaction=True)
def test_two_files_that_come_at_once_do_not_both_take_the_last_room(acme: Tenant, other: Tenant) -> None:
    add_file(other, 9 * files.MIB)  # another tenant's takes none of it
    ids = [make_file_id() for _ in range(AT_ONCE)]
    works = [
        lambda one=one: files.add_file(acme.pk, one, "f", "batch", 4 * files.MIB, DAY)  # type: ignore[misc]
        for one in ids
    ]

    came = all_at_once(works)

    assert sorted(type(one).__name__ for one in came) == ["StoredFile"] * 2 + ["TooMuchStored"] * 2
    refused = next(one for one in came if isinstance(one, files.TooMuchStored))
    assert (refused.kept_bytes, refused.most_bytes) == (8 * files.MIB, 10 * files.MIB)
    assert files.room_for(acme.pk) == 2 * files.MIB


def test_results_are_kept_where_there_is_no_room_for_more(acme: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    add_file(acme, 11 * files.MIB, "batch_output")
    with pytest.raises(files.TooMuchStored):
        files.room_for(acme.pk)

    StoredFile.objects.all().delete()
    monkeypatch.setattr(files, "MAX_FILES", 1)
    add_file(acme)
    with pytest.raises(files.TooMuchStored):
        files.add_file(acme.pk, make_file_id(), "f", "batch", 1, DAY)

    Plan.objects.update(files_mib=0)
    with pytest.raises(files.NoFilesAllowed):
        files.room_for(acme.pk)


def test_tenants_that_a_smaller_plan_leaves_no_room_are_counted(acme: Tenant, other: Tenant, plan: Plan) -> None:
    for size in (1, 1):
        add_file(acme, size * files.MIB)
    add_file(other, files.MIB)
    assert [files.tenants_above(plan, most) for most in (0, 1, 2, 3)] == [2, 2, 1, 0]


# --- lists ----------------------------------------------------------------------------------------------------------


def pages(page: Callable[[str | None], list[Any] | None]) -> Iterator[list[str]]:
    after = None
    while found := page(after):
        yield [one.public_id for one in found]
        after = found[-1].public_id


@pytest.mark.parametrize("newest_first", [True, False])
def test_files_of_one_moment_come_in_pages_without_gaps(newest_first: bool, acme: Tenant, other: Tenant) -> None:
    now = timezone.now()
    made = [add_file(acme, created_at=now).public_id for _ in range(7)]
    made.append(add_file(acme, created_at=now + timedelta(seconds=1)).public_id)
    made.insert(0, add_file(acme, created_at=now - timedelta(seconds=1)).public_id)
    add_file(other, created_at=now)

    def page(after: str | None) -> list[StoredFile] | None:
        return files.list_files(acme.pk, after=after, count=2, purpose=None, newest_first=newest_first)

    seen = [one for some in pages(page) for one in some]
    assert seen == (made[::-1] if newest_first else made)


def test_jobs_of_one_moment_come_in_pages_without_gaps(acme: Tenant, key: ApiKey) -> None:
    made = [jobs.create_job(new_job(acme, key)).public_id for _ in range(5)]
    BulkJob.objects.update(created_at=timezone.now())

    assert list(pages(lambda after: jobs.list_jobs(acme.pk, after, 2))) == [
        [made[4], made[3]],
        [made[2], made[1]],
        [made[0]],
    ]


def test_a_list_begins_only_behind_what_is_the_tenants_own(acme: Tenant, other: Tenant, key: ApiKey) -> None:
    theirs, expired = add_file(other), add_file(acme, expires_at=timezone.now())
    for after in (theirs.public_id, expired.public_id, make_file_id()):
        assert files.list_files(acme.pk, after=after, count=9, purpose=None, newest_first=True) is None
    job = jobs.create_job(new_job(acme, key))
    assert jobs.list_jobs(other.pk, job.public_id, 9) is None
    assert jobs.list_jobs(other.pk, None, 9) == []
    assert jobs.find_job(other.pk, job.public_id) is None


def test_a_list_of_one_purpose_goes_on_behind_a_file_of_another(acme: Tenant) -> None:
    upload, result = add_file(acme), add_file(acme, purpose="batch_output")
    found = files.list_files(acme.pk, after=result.public_id, count=9, purpose="batch", newest_first=True)
    assert [one.public_id for one in found or []] == [upload.public_id]
