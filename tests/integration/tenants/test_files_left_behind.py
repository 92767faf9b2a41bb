"""What a deleted tenant, and what has ended, leaves on the disk: the sweep of bulk processes removes it."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from gateway.bulk import sweep
from tenants.files.disk import FileDisk
from tenants.models import Plan, StoredFile, Tenant
from tests.integration.tenants.kept_files import add_file, add_job, lies_on


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "files"


@pytest.fixture
def disk(root: Path) -> FileDisk:
    return FileDisk(root)


@pytest.fixture
def plan(db: None) -> Plan:
    return Plan.objects.create(name="gold")


@pytest.fixture
def acme(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=plan)


@pytest.fixture
def other(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="other", name="Other", plan=plan)


def make_older(path: Path, seconds: float) -> None:
    os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_contents_without_a_row_go_after_an_hour_however_many_others_there_are(
    disk: FileDisk, root: Path, acme: Tenant, other: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "AT_ONCE", 2)
    for tenant in (acme, other):
        for _ in range(7):
            add_file(disk, tenant)
    acme.delete()

    assert sweep.remove_left(disk) == 0
    for path in root.glob("??/file-*"):
        make_older(path, sweep.LEFT_S + 1)
    assert sweep.remove_left(disk) == 7

    assert lies_on(root, "acme") == []
    assert len(lies_on(root, "other")) == 7


def test_results_without_an_open_job_go_after_a_minute(disk: FileDisk, acme: Tenant, other: Tenant) -> None:
    gone, ended, open_one = (
        add_job(disk, tenant, status).public_id
        for tenant, status in ((acme, "in_progress"), (other, "completed"), (other, "cancelling"))
    )
    acme.delete()

    sweep.remove_expired(disk)
    assert all(disk.job_directory(job_id).exists() for job_id in (gone, ended, open_one))

    for job_id in (gone, ended, open_one):
        make_older(disk.job_directory(job_id), sweep.LEFT_JOB_S + 1)
    sweep.remove_expired(disk)
    assert [disk.job_directory(job_id).exists() for job_id in (gone, ended, open_one)] == [False, False, True]


def test_files_whose_time_is_over_go_but_those_that_an_open_job_reads(disk: FileDisk, acme: Tenant) -> None:
    read = add_job(disk, acme, "in_progress").input_file_id
    unread = add_job(disk, acme, "completed").input_file_id
    StoredFile.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert sweep.clean(disk) == 1

    assert (disk.path(read).exists(), disk.path(unread).exists()) == (True, False)
    assert list(StoredFile.objects.values_list("public_id", flat=True)) == [read]


def test_an_upload_that_broke_off_goes_after_an_hour(disk: FileDisk, acme: Tenant) -> None:
    old, young = disk.new_part(), disk.new_part()
    make_older(old, sweep.LEFT_S + 1)

    sweep.remove_left(disk)

    assert (old.exists(), young.exists()) == (False, True)
