"""Erasing what was kept of a tenant, from its page."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from redis import Redis

from gateway_admin.roles import Role
from tenants.files.disk import FileDisk, make_job_id
from tenants.models import BulkJob, StoredFile, StoredPrompt

FILE_ID = "file-0123456789abcdef01234567"


@pytest.fixture
def url(rows: Any, valkey: "Redis") -> str:
    StoredPrompt.objects.create(tenant=rows.tenant, public_id="prompt_a")
    return reverse("tenant-erase", args=[rows.tenant.pk])


def test_asking_erases_nothing(admin_client: Client, url: str, rows: Any) -> None:
    salt = rows.tenant.cache_salt
    text = admin_client.get(url).text
    assert "Erase everything that was kept of the answers to Acme?" in text
    assert "with all their versions (1)" in text
    rows.tenant.refresh_from_db()
    assert rows.tenant.cache_salt == salt


def test_the_tenants_page_leads_there(admin_client: Client, url: str, rows: Any) -> None:
    action = reverse("admin:tenants_tenant_erase_kept", args=[rows.tenant.pk])
    assert action in admin_client.get(reverse("admin:tenants_tenant_change", args=[rows.tenant.pk])).text
    assert admin_client.get(action).headers["Location"] == url


@pytest.mark.parametrize(("ticked", "left"), [({}, 1), ({"prompts": "on"}, 0)])
def test_confirmed_it_erases_what_was_ticked(
    admin_client: Client, url: str, rows: Any, valkey: "Redis", ticked: dict[str, str], left: int
) -> None:
    valkey.hset(f"sl:idem:{rows.tenant.pk}:d", mapping={"rid": "r1", "state": "done"})
    valkey.set("sl:kept:r1", "an answer")
    salt = rows.tenant.cache_salt
    answer = admin_client.post(url, ticked, follow=True)
    rows.tenant.refresh_from_db()
    assert "What was kept of Acme is erased." in answer.text
    assert rows.tenant.cache_salt != salt
    assert not valkey.exists("sl:kept:r1")
    assert StoredPrompt.objects.count() == left


@pytest.fixture
def files(rows: Any, settings: Any, tmp_path: Path, url: str) -> FileDisk:
    """A file and a batch of the tenant."""
    settings.SLUICE = replace(settings.SLUICE, data_dir=tmp_path)
    disk = FileDisk(settings.SLUICE.files_path)
    disk.keep(disk.new_part(), FILE_ID)
    StoredFile.objects.create(
        tenant=rows.tenant, public_id=FILE_ID, filename="f", purpose="batch", size_bytes=0, expires_at=None
    )
    BulkJob.objects.create(
        tenant=rows.tenant, public_id=make_job_id(), input_file_id=FILE_ID, expires_at=timezone.now()
    )
    return disk


def test_files_and_batches_go_if_they_are_ticked(
    admin_client: Client, url: str, files: FileDisk, rows: Any, valkey: "Redis"
) -> None:
    assert "batches that have not ended are cancelled (1 + 1)" in admin_client.get(url).text

    assert "1 file" not in admin_client.post(url, {"prompts": "on"}, follow=True).text
    assert files.path(FILE_ID).exists()
    assert (StoredFile.objects.count(), BulkJob.objects.count()) == (1, 1)

    assert "1 file and 1 batch are erased." in admin_client.post(url, {"files": "on"}, follow=True).text
    assert not files.path(FILE_ID).exists()
    assert (StoredFile.objects.count(), BulkJob.objects.count()) == (0, 0)
    assert any("files and batches" in entry.changes_dict for entry in LogEntry.objects.all())


def test_files_that_cannot_be_removed_are_told_of(
    admin_client: Client, url: str, files: FileDisk, valkey: "Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(FileDisk, "remove", refuse)
    assert "1 files could not be removed" in admin_client.post(url, {"files": "on"}, follow=True).text


def test_who_erased_is_in_the_audit_log(admin_client: Client, url: str, rows: Any) -> None:
    admin_client.post(url, {"prompts": "on"})
    (entry,) = [one for one in LogEntry.objects.all() if "kept answers" in one.changes_dict]
    assert set(entry.changes_dict) == {"kept answers", "stored prompts"}
    assert (entry.object_pk, (entry.additional_data or {})["by"]) == (str(rows.tenant.pk), "admin")
    assert entry.remote_addr == "127.0.0.1"


def test_a_gateway_that_does_not_answer_is_told_of(
    admin_client: Client, url: str, valkey: "Redis", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway_admin.erase_page._GATEWAYS_S", 0.1)
    valkey.sadd("sl:gateways", "deaf")
    valkey.set("sl:gateway:deaf", "1")
    assert "Only 0 of 1 gateways" in admin_client.post(url, follow=True).text


def test_without_the_store_it_says_that_it_is_not_done(
    admin_client: Client, url: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError("nobody listens")

    monkeypatch.setattr("gateway_admin.erase_page.erase", away)
    answer = admin_client.post(url, {"prompts": "on"})
    assert answer.status_code == 503
    assert "not gone yet" in answer.text
    assert "checked" in answer.text


def test_a_viewer_may_not(client: Client, url: str, rows: Any) -> None:
    user = User.objects.create_user("vera", is_staff=True)
    user.groups.add(Group.objects.get(name=Role.VIEWER.value))
    client.force_login(user)
    salt = rows.tenant.cache_salt
    assert client.get(url).status_code == 403
    assert client.post(url).status_code == 403
    rows.tenant.refresh_from_db()
    assert rows.tenant.cache_salt == salt


def test_no_such_tenant_is_404(admin_client: Client, url: str) -> None:
    assert admin_client.get(reverse("tenant-erase", args=[10**6])).status_code == 404


def test_it_speaks_chinese(admin_client: Client, url: str) -> None:
    text = admin_client.get(url, headers={"accept-language": "zh-hans"}).text
    assert "此操作无法撤销" in text
    assert "保持不变" in text
