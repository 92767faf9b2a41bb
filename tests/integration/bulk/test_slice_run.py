"""One slice worked off by a process: real files, real database; the data plane behind is scripted."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jobs_made
import pytest
from asgiref.sync import sync_to_async
from django.db import connections

from domain.bulk import again
from domain.bulk.status import JobStatus, SliceState
from domain.qos import QosClass
from gateway.bulk import slice_run
from gateway.bulk.byte_room import ByteRoom
from gateway.bulk.part import read_results
from gateway.bulk.permits import Permits
from gateway.bulk.rows import Rows
from gateway.bulk.sender import Sender
from gateway.bulk.slice_run import Place, SliceRun
from gateway.connection import PRINCIPAL, Receive, Scope, Send
from gateway.errors import Refusal, refuse
from tenants.bulk import jobs
from tenants.bulk.slices import take_slice
from tenants.files.disk import FileDisk
from tenants.models import ApiKey, BulkJob, BulkSlice
from tenants.snapshot import load_snapshot

pytestmark = pytest.mark.django_db(transaction=True)

FINE = b'{"id":"x","usage":{"prompt_tokens":5,"completion_tokens":2}}'
Step = tuple[int, bytes, Sequence[tuple[bytes, bytes]]]


def answer() -> Step:
    return 200, FINE, [(b"x-request-id", b"r")]


def refusal(why: Refusal, wait_ms: int | None = 1) -> Step:
    error = refuse(why, retry_after_ms=wait_ms)
    return error.status, error.body(), [(name.encode(), value.encode()) for name, value in error.headers.items()]


@dataclass
class Plane:
    """Answers requests by the ``name`` in their bodies: each with its steps in order, the last one again and again."""

    steps: dict[str, list[Step]] = field(default_factory=dict)
    hanging: set[str] = field(default_factory=set)
    seen: list[tuple[str, Scope]] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    on_request: Callable[[str], None] = lambda name: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message: Any = await receive()
        name = json.loads(message["body"])["name"]
        self.seen.append((name, scope))
        self.on_request(name)
        if name in self.hanging:
            assert (await receive())["type"] == "http.disconnect"
            self.left.add(name)
            return
        steps = self.steps.get(name) or [answer()]
        status, body, headers = steps.pop(0) if len(steps) > 1 else steps[0]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    def times(self) -> Counter[str]:
        return Counter(name for name, _ in self.seen)


@dataclass
class Snapshots:
    current: Any


class Slice:
    """A job of one slice, taken, and what works it off."""

    def __init__(self, job: BulkJob, plane: Plane, disk: FileDisk, rows: Rows) -> None:
        piece = take_slice(job.public_id, 0, "me")
        assert piece is not None
        self.piece, self.disk, self.directory = piece, disk, disk.make_job_directory(job.public_id)
        self.permits = Permits(lambda: 8)
        sender = Sender(piece.job, plane, self.permits, Snapshots(load_snapshot()))
        place = Place(rows, ByteRoom(), jobs_made.MAX_LINE_BYTES, self.others_wait)
        self.others = False
        self.run = SliceRun(piece, sender, place, disk.path(job.input_file_id), self.directory)

    async def others_wait(self) -> bool:
        return self.others

    def results(self) -> dict[int, Any]:
        return {result.number: json.loads(result.line) for result in read_results(self.directory, 0)}


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
async def rows() -> AsyncIterator[Rows]:
    made = Rows("test")
    yield made
    made.close()
    await sync_to_async(connections.close_all)()


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slice_run, "BEAT_S", 0.02)
    monkeypatch.setattr(again, "FIRST_S", 0.001)


async def begun(plane: Plane, disk: FileDisk, rows: Rows, ids: list[str], **plan: Any) -> Slice:
    def make() -> Slice:
        job = jobs_made.make_job(jobs_made.make_tenant(**plan), disk, jobs_made.request_lines(ids))
        return Slice(jobs_made.begin(job, disk), plane, disk, rows)

    return await sync_to_async(make)()


async def row(piece: BulkSlice) -> BulkSlice:
    return await BulkSlice.objects.select_related("job").aget(pk=piece.pk)


async def test_every_line_gets_a_result_and_the_slice_is_done(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    one = await begun(plane, disk, rows, [f"r{number}" for number in range(30)])
    assert await one.run.run()
    assert [found["custom_id"] for _, found in sorted(one.results().items())] == [f"r{number}" for number in range(30)]
    found = await row(one.piece)
    assert (found.state, found.completed, found.failed) == (SliceState.DONE, 30, 0)
    assert (found.prompt_tokens, found.completion_tokens, found.held_by) == (150, 60, "")


async def test_requests_run_as_background_work_of_the_jobs_key_under_its_trace(
    plane: Plane, disk: FileDisk, rows: Rows
) -> None:
    one = await begun(plane, disk, rows, ["a"], best_class="p0")
    assert await one.run.run()
    ((_, scope),) = plane.seen
    principal = scope[PRINCIPAL]
    assert (principal.tenant, principal.best_class, principal.key_id) == ("acme", QosClass.P2, one.piece.job.key_id)
    assert dict(scope["headers"])[b"traceparent"].startswith(b"00-" + one.piece.job.trace_id.encode())
    assert b"authorization" not in dict(scope["headers"])


async def test_what_is_refused_for_want_of_room_is_sent_again_until_it_is_answered(
    plane: Plane, disk: FileDisk, rows: Rows
) -> None:
    busy = [Refusal.REQUESTS_PER_MINUTE, Refusal.QUEUE_FULL, Refusal.NO_BACKEND, Refusal.TTL, Refusal.QUEUE_DRAINING]
    plane.steps["a"] = [*(refusal(why) for why in busy), answer()]
    one = await begun(plane, disk, rows, ["a"])
    assert await one.run.run()
    assert plane.times()["a"] == len(busy) + 1
    assert (await row(one.piece)).completed == 1


async def test_what_the_request_is_to_blame_for_stands(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    plane.steps["bad"] = [refusal(Refusal.NEVER_FITS)]
    one = await begun(plane, disk, rows, ["bad", "good"])
    assert await one.run.run()
    found = await row(one.piece)
    assert (found.completed, found.failed, plane.times()["bad"]) == (1, 1, 1)
    assert one.results()[1]["response"]["status_code"] == 400
    assert one.results()[1]["response"]["body"]["error"]["reason"] == "never_fits"


async def test_what_breaks_again_and_again_stands_in_the_end(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    plane.steps["a"] = [refusal(Refusal.ENGINE_FAILED)]
    one = await begun(plane, disk, rows, ["a"])
    assert await one.run.run()
    assert plane.times()["a"] == 3
    assert one.results()[1]["response"]["status_code"] == 502


async def test_a_revoked_key_runs_nothing_more(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    def make() -> Slice:
        job = jobs_made.begin(jobs_made.make_job(jobs_made.make_tenant(), disk, jobs_made.request_lines(["a"])), disk)
        ApiKey.objects.filter(pk=job.key_id).update(revoked_at=job.created_at)
        return Slice(job, plane, disk, rows)

    one = await sync_to_async(make)()
    assert await one.run.run()
    assert plane.seen == []
    assert one.results()[1]["response"]["status_code"] == 401


async def test_a_cancelled_job_is_left_with_what_it_has(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    plane.hanging = {"b"}
    one = await begun(plane, disk, rows, ["a", "b"])

    running = asyncio.create_task(one.run.run())
    await eventually(lambda: len(plane.seen) == 2)
    await sync_to_async(jobs.cancel_job)(one.piece.job.public_id)
    assert not await asyncio.wait_for(running, 30)
    assert plane.left == {"b"}
    assert list(one.results()) == [1]
    assert (await row(one.piece)).state == SliceState.WAITING


async def test_a_slice_that_another_process_has_taken_over_is_left_and_changes_nothing(
    plane: Plane, disk: FileDisk, rows: Rows
) -> None:
    plane.hanging = {"b"}
    one = await begun(plane, disk, rows, ["a", "b"])
    running = asyncio.create_task(one.run.run())
    await eventually(lambda: len(plane.seen) == 2)
    await BulkSlice.objects.filter(pk=one.piece.pk).aupdate(attempt=7, held_by="other")
    assert not await asyncio.wait_for(running, 30)
    found = await row(one.piece)
    assert (found.state, found.held_by, found.attempt) == (SliceState.RUNNING, "other", 7)


async def test_the_next_attempt_goes_on_where_the_last_one_ended(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    ids = [f"r{number}" for number in range(20)]
    plane.hanging = set(ids[10:])
    one = await begun(plane, disk, rows, ids)
    running = asyncio.create_task(one.run.run())
    await eventually(lambda: len(one.results()) == 10)
    one.run.leave()
    assert not await asyncio.wait_for(running, 30)

    later = Plane()
    two = await sync_to_async(Slice)(one.piece.job, later, disk, rows)
    assert two.piece.attempt == 2
    assert await two.run.run()
    assert set(later.times()) == set(ids[10:])
    assert len(two.results()) == 20
    assert (await row(two.piece)).completed == 20


async def test_a_turn_ends_when_others_wait_and_what_is_under_way_ends_by_itself(
    plane: Plane, disk: FileDisk, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slice_run, "TURN_S", 0.0)
    monkeypatch.setattr(slice_run, "IDLE_TURN_S", 0.0)
    one = await begun(plane, disk, rows, ["a", "b"])
    one.others = True
    plane.steps["b"] = [refusal(Refusal.QUEUE_FULL, 60_000)]
    assert not await asyncio.wait_for(one.run.run(), 30)
    assert list(one.results()) == [1]
    assert (await row(one.piece)).state == SliceState.WAITING


async def test_a_job_tells_what_it_waits_for(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    plane.steps["a"] = [refusal(Refusal.COST_PER_MONTH, 86_400_000)]
    one = await begun(plane, disk, rows, ["a"])
    running = asyncio.create_task(one.run.run())

    async def told() -> bool:
        return (await row(one.piece)).job.waiting_for == "cost_per_month"

    for _ in range(500):
        if await told():
            break
        await asyncio.sleep(0.02)
    assert await told()
    one.run.leave()
    await running


async def test_a_disk_that_takes_nothing_more_ends_the_attempt_with_its_error(
    plane: Plane, disk: FileDisk, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await begun(plane, disk, rows, [f"r{number}" for number in range(30)])

    def full(name: str) -> None:
        if name == "r5":
            monkeypatch.setattr(one.run._writer, "write", _full)

    plane.on_request = full
    with pytest.raises(OSError, match="No space"):
        await asyncio.wait_for(one.run.run(), 30)
    found = await row(one.piece)
    assert found.state == SliceState.WAITING
    assert found.completed == len(one.results())


def _full(result: object) -> None:
    raise OSError(28, "No space left on device")


async def test_a_file_that_was_changed_behind_our_back_is_noticed(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    one = await begun(plane, disk, rows, ["a", "b"])
    path = disk.path(one.piece.job.input_file_id)
    path.write_bytes(b"x" * path.stat().st_size)
    with pytest.raises(OSError, match="not what it was"):
        await asyncio.wait_for(one.run.run(), 30)
    assert plane.seen == []


async def test_status_of_the_job_is_untouched_by_its_slices(plane: Plane, disk: FileDisk, rows: Rows) -> None:
    one = await begun(plane, disk, rows, ["a"])
    assert await one.run.run()
    assert (await row(one.piece)).job.status == JobStatus.IN_PROGRESS


async def eventually(true: Callable[[], bool]) -> None:
    for _ in range(1500):
        if true():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("it did not come true")
