"""A job that is asked for twice with the same idempotency key is made once."""

import jobs_made
import pytest

from tenants.bulk import jobs
from tenants.files.disk import FileDisk
from tenants.models import BulkJob

pytestmark = pytest.mark.django_db

KEYED = {"idempotency_key": "k" * 32, "idempotency_body": "b" * 32}


@pytest.fixture
def first(disk: FileDisk) -> BulkJob:
    job = jobs_made.make_job(jobs_made.make_tenant(), disk, jobs_made.request_lines(["a"]))
    return jobs.create_job(jobs_made.new_job(job.tenant, job.input_file_id, **KEYED))


def test_the_same_request_again_gets_the_job_as_it_stands(first: BulkJob) -> None:
    jobs.cancel_job(first.public_id)
    again = jobs.create_job(jobs_made.new_job(first.tenant, first.input_file_id, **KEYED))
    assert (again.public_id, again.status) == (first.public_id, "cancelling")
    assert BulkJob.objects.filter(idempotency_key=KEYED["idempotency_key"]).count() == 1


def test_another_body_with_the_same_key_is_refused(first: BulkJob) -> None:
    other = jobs_made.new_job(first.tenant, first.input_file_id, **KEYED | {"idempotency_body": "c" * 32})
    with pytest.raises(jobs.KeyReused):
        jobs.create_job(other)


def test_without_a_key_each_request_makes_a_job(first: BulkJob) -> None:
    ids = {jobs.create_job(jobs_made.new_job(first.tenant, first.input_file_id)).public_id for _ in range(2)}
    assert len(ids | {first.public_id}) == 3


def test_keys_of_tenants_have_nothing_to_do_with_each_other(first: BulkJob, disk: FileDisk) -> None:
    other = jobs_made.make_job(jobs_made.make_tenant("other"), disk, jobs_made.request_lines(["a"]))
    made = jobs.create_job(jobs_made.new_job(other.tenant, other.input_file_id, **KEYED))
    assert made.public_id != first.public_id
