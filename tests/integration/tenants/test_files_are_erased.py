"""After an erasure of a tenant's files and batches nothing of them is there: no row, no contents, no results, also
where a bulk process is in the middle of its work."""

import asyncio
import dataclasses
import threading
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from auditlog.models import LogEntry
from django.core.management import call_command
from django.db import connections
from pytest_django import Settings
from redis import Redis

from domain.bulk.line import BulkLine
from domain.bulk.status import JobStatus, SliceState
from gateway.bulk import finish as finishing
from gateway.bulk.call import Answered
from gateway.bulk.host import Host
from gateway.bulk.part import PartWriter
from tenants.bulk.jobs import begin_job, hold_job
from tenants.erase import erase_rows
from tenants.files.disk import FileDisk
from tenants.models import BulkJob, BulkSlice, Plan, StoredFile, Tenant
from tests.integration.tenants.kept_files import LINE, add_file, add_job, lies_on

pytestmark = pytest.mark.django_db(transaction=True)

STATUSES = [status.value for status in JobStatus]


@pytest.fixture
def disk(tmp_path: Path, settings: Settings, valkey_url: str) -> FileDisk:
    url = valkey_url.removesuffix("/0")
    settings.SLUICE = dataclasses.replace(settings.SLUICE, redis_url=url, data_dir=tmp_path / "data")
    with Redis.from_url(url) as store:
        store.flushall()
    return FileDisk(settings.SLUICE.files_path)


@pytest.fixture
def plan() -> Plan:
    return Plan.objects.create(name="gold")


@pytest.fixture
def acme(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="acme", name="Acme", plan=plan)


@pytest.fixture
def other(plan: Plan) -> Tenant:
    return Tenant.objects.create(slug="other", name="Other", plan=plan)


def erase(*options: str) -> str:
    out = StringIO()
    call_command("erase", "acme", "--yes", *options, stdout=out)
    return out.getvalue()


@pytest.fixture
def root(settings: Settings, disk: FileDisk) -> Path:
    return Path(settings.SLUICE.files_path)


# --- by an operator -------------------------------------------------------------------------------------------------


def test_all_files_and_batches_of_the_tenant_go_and_none_of_others(
    disk: FileDisk, root: Path, acme: Tenant, other: Tenant
) -> None:
    for tenant in (acme, other):
        for status in STATUSES:
            add_job(disk, tenant, status)
        add_file(disk, tenant, "batch_output")
    theirs = lies_on(root, "other")
    assert len(lies_on(root, "acme")) == 2 * len(STATUSES) + 1

    told = erase("--files")

    assert f"{len(STATUSES) + 1} files, {len(STATUSES)} batches" in told
    assert lies_on(root, "acme") == []
    assert sorted(lies_on(root, "other")) == sorted(theirs)
    for model in (StoredFile, BulkJob):
        assert set(model._default_manager.values_list("tenant__slug", flat=True)) == {"other"}
    assert BulkSlice.objects.count() == len(STATUSES)
    assert "0 files, 0 batches" in erase("--files")


def test_they_stay_unless_they_are_named(disk: FileDisk, root: Path, acme: Tenant) -> None:
    add_job(disk, acme, "in_progress")
    erase("--prompts")
    assert (StoredFile.objects.count(), BulkJob.objects.count(), len(lies_on(root, "acme"))) == (1, 1, 2)


def test_that_they_were_erased_is_in_the_audit_log(disk: FileDisk, acme: Tenant) -> None:
    erase("--files")
    told = [set(entry.changes_dict) for entry in LogEntry.objects.all() if "kept answers" in entry.changes_dict]
    assert told == [{"kept answers", "files and batches"}]


def test_a_disk_that_does_not_let_go_is_told_of(
    disk: FileDisk, acme: Tenant, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add_file(disk, acme)

    def refuse(*_: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(FileDisk, "remove", refuse)
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("erase", "acme", "--yes", "--files", stdout=out)
    assert ended.value.code == 1
    assert "1 files could not be removed" in out.getvalue()
    assert not StoredFile.objects.exists()


# --- in the middle of a bulk process's work -------------------------------------------------------------------------


@pytest.fixture
def host(settings: Settings, disk: FileDisk) -> Host:
    """One that was not started: what is asked of it here needs no engines."""
    return Host(settings.SLUICE)


def erase_in_between(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, erase_now: Callable[[], object]) -> None:
    """Have everything erased whenever a function returns."""
    does = getattr(where, name)

    def both(*args: Any, **kwargs: Any) -> Any:
        done = does(*args, **kwargs)
        erase_now()
        return done

    monkeypatch.setattr(where, name, both)


@pytest.mark.parametrize("step", ["_write_results", "_write_unanswered"])
def test_results_that_are_being_put_together_are_not_kept(
    host: Host, disk: FileDisk, root: Path, acme: Tenant, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(disk, acme, "cancelling")
    erase_in_between(monkeypatch, finishing, step, lambda: erase("--files"))

    assert host.finish(job.public_id) == ""

    assert lies_on(root, "acme") == []
    assert not StoredFile.objects.exists()
    assert list(root.rglob("*.part")) == []


def test_results_of_a_tenant_that_is_deleted_are_not_kept(
    host: Host, disk: FileDisk, root: Path, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = add_job(disk, acme, "cancelling")
    input_path = disk.path(job.input_file_id)
    erase_in_between(monkeypatch, finishing, "_write_results", acme.delete)

    assert host.finish(job.public_id) == ""

    assert lies_on(root, "acme") == [input_path.name]  # for which the sweep comes
    assert not StoredFile.objects.exists()


class Run:
    """Stands for a slice's run: writes a result at the worst moment."""

    does: Callable[[Path], bool]

    def __init__(self, piece: BulkSlice, sender: Any, place: Any, path: Path, directory: Path) -> None:
        self._directory = directory

    async def run(self) -> bool:
        """Write."""
        return type(self).does(self._directory)


class Sender:
    """Stands for who sends requests: answers the first, then has everything erased, and waits until it is left."""

    waits_for = ""

    def __init__(self, *_: Any) -> None:
        self._left, self._sent = asyncio.Event(), 0

    @property
    def is_going(self) -> bool:
        """It was not stopped."""
        return not self._left.is_set()

    def leave(self) -> None:
        """End what is under way."""
        self._left.set()

    async def answer(self, line: BulkLine) -> Answered | None:
        """Answer, or wait."""
        self._sent += 1
        if self._sent == 1:
            return Answered(200, {}, b'{"said":"acme"}')
        await asyncio.to_thread(in_thread, lambda: erase("--files"))
        await self._left.wait()
        return Answered(200, {}, b'{"said":"acme, too late"}')


@pytest.fixture
def running(host: Host) -> Iterator[Host]:
    """The same with its loop."""
    host._thread.start()
    yield host
    host._loop.call_soon_threadsafe(host._loop.stop)
    host._thread.join()
    host._rows.close()


@pytest.fixture
def working(running: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """One that runs slices as a test says."""
    monkeypatch.setattr("gateway.bulk.host.SliceRun", Run)
    return running


def a_slice_of(disk: FileDisk, tenant: Tenant) -> BulkJob:
    job = add_job(disk, tenant, "in_progress")
    BulkSlice.objects.filter(job=job).update(state=SliceState.WAITING.value)
    return job


def in_thread(work: Callable[[], object]) -> None:
    """Do something with a database connection of its own, and wait."""

    def run() -> None:
        try:
            work()
        finally:
            connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_slice_that_is_erased_is_left_and_what_it_wrote_is_gone(
    running: Host, disk: FileDisk, root: Path, acme: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.bulk.host.Sender", Sender)
    monkeypatch.setattr("gateway.bulk.slice_run.BEAT_S", 0.05)
    job = a_slice_of(disk, acme)
    disk.path(job.input_file_id).write_bytes((LINE % b"acme") * 3)
    disk.remove_job(job.public_id)
    BulkSlice.objects.update(lines=3, size_bytes=3 * len(LINE % b"acme"))

    running.run_slice(job.public_id, 0)

    assert lies_on(root, "acme") == []
    assert not disk.job_directory(job.public_id).exists()
    assert not BulkSlice.objects.exists()


def test_a_result_that_is_written_after_the_erasure_goes_with_the_slice(
    working: Host, disk: FileDisk, root: Path, acme: Tenant
) -> None:
    job = a_slice_of(disk, acme)

    def write_late(directory: Path) -> bool:
        in_thread(lambda: erase("--files"))
        assert not directory.exists()
        late = disk.make_job_directory(job.public_id) / "0-2.results"  # as who had taken the slice a moment before
        late.write_bytes(b"acme")
        return False

    Run.does = staticmethod(write_late)

    assert working.run_slice(job.public_id, 0) is False
    assert lies_on(root, "acme") == []


def test_a_slice_that_was_erased_under_its_process_is_no_failure(
    working: Host, disk: FileDisk, root: Path, acme: Tenant
) -> None:
    job = a_slice_of(disk, acme)

    def fail(directory: Path) -> bool:
        in_thread(lambda: erase("--files"))
        PartWriter(directory, 0, 9)
        return True

    Run.does = staticmethod(fail)

    assert working.run_slice(job.public_id, 0) is None
    assert working.run_slice(job.public_id, 0) is None


def test_a_slice_of_a_job_that_is_there_keeps_its_results(
    working: Host, disk: FileDisk, root: Path, acme: Tenant
) -> None:
    job = a_slice_of(disk, acme)

    def break_down(directory: Path) -> bool:
        raise OSError("the disk is full")

    Run.does = staticmethod(break_down)

    with pytest.raises(OSError, match="full"):
        working.run_slice(job.public_id, 0)
    assert "0-1.results" in lies_on(root, "acme")


def test_a_file_that_is_being_checked_begins_nothing(disk: FileDisk, acme: Tenant) -> None:
    job = add_job(disk, acme, "validating")
    held = hold_job(job.public_id, "bulk-0", JobStatus.VALIDATING)
    assert held is not None
    erase("--files")
    assert begin_job(held, "m", 1, []) is False
    assert not BulkSlice.objects.exists()


def test_an_erasure_and_an_end_at_the_same_moment_leave_nothing(
    host: Host, disk: FileDisk, root: Path, acme: Tenant
) -> None:
    for _ in range(5):
        job = add_job(disk, acme, "cancelling")
        removed: list[str] = []
        both = threading.Barrier(2)

        def erase_all(both: threading.Barrier = both, removed: list[str] = removed) -> None:
            both.wait()
            removed.extend(erase_rows(acme.pk, prompts=False, files=True).file_ids)

        def end(both: threading.Barrier = both, job_id: str = job.public_id) -> None:
            both.wait()
            host.finish(job_id)

        threads = [threading.Thread(target=in_thread, args=[work]) for work in (erase_all, end)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert not StoredFile.objects.exists()
        assert not BulkJob.objects.exists()
        lying = {path.name for path in root.glob("??/file-*")}
        assert lying <= set(removed)  # which the erasure removes next
        for file_id in lying:
            disk.remove(file_id)
