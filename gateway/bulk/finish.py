"""Puts the results of a job together: a file of answers and a file of failures, in the order of its requests."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO

from django.db import transaction

from domain.bulk.line import LineError, read_line
from domain.bulk.status import JobStatus
from gateway.bulk.part import Result, Tally, read_results
from gateway.bulk.reading import read_lines
from gateway.bulk.result_line import CANCELLED, EXPIRED, unanswered_line
from tenants.bulk.jobs import end_job
from tenants.files.disk import FileDisk, make_file_id
from tenants.files.rows import add_result
from tenants.models import BulkJob
from tenants.models.stored_file import BATCH_OUTPUT

_WHY = {JobStatus.EXPIRED: EXPIRED, JobStatus.CANCELLED: CANCELLED}


@dataclass(frozen=True, slots=True)
class Finished:
    """What came of a job; ids of files are empty where there is nothing to be in them.

    Attributes:
        counts: by the names of the database's columns.
    """

    output_file_id: str
    error_file_id: str
    counts: dict[str, int]


def finish(job: BulkJob, end: JobStatus, disk: FileDisk, max_line_bytes: int, lives: timedelta) -> Finished | None:
    """Write a job's files, their rows, and how it ended; None, and nothing is kept, if it was erased or has ended.

    Args:
        job: held.
        end: how it ends; requests without a result are then told why they have none.
        disk: of all files.
        max_line_bytes: of a line.
        lives: for how long its files are kept.

    Raises:
        OSError: the disk does not take them.
    """
    writer = _Writer(disk)
    try:
        tally = _write_results(job, disk, writer.write)
        if end in _WHY and job.total:
            _write_unanswered(job, disk.path(job.input_file_id), max_line_bytes, tally, _WHY[end], writer.write)
        output, errors = writer.keep()
    finally:
        writer.close()
    done = Finished(output[0], errors[0], tally.counts())
    sizes = {file_id: size for file_id, size in (output, errors) if file_id}
    # Where the database fails they stay: it may have written the rows all the same. If not, they belong to nobody.
    if _record(job, end, done, sizes, lives):
        return done
    for file_id in sizes:
        disk.remove(file_id)
    return None


def _record(job: BulkJob, end: JobStatus, done: Finished, sizes: dict[str, int], lives: timedelta) -> bool:
    """Write how it ended together with the rows of its files; False if there is nothing to end any more."""
    names = {done.output_file_id: "output", done.error_file_id: "errors"}
    with transaction.atomic():
        if not end_job(job, end, done.output_file_id, done.error_file_id, done.counts):
            return False
        for file_id, size in sizes.items():
            filename = f"{job.public_id}_{names[file_id]}.jsonl"
            add_result(job.tenant_id, file_id, filename, BATCH_OUTPUT, size, lives)
    return True


Write = Callable[[bytes, bool], None]
"""Takes a line, and whether it is an answer."""


def _write_results(job: BulkJob, disk: FileDisk, write: Write) -> Tally:
    """Write what there is, slice by slice; results of one slice fit into memory, those of a job need not."""
    all_of_it = Tally()
    directory = disk.job_directory(job.public_id)
    for number in job.slices.values_list("number", flat=True):
        results: dict[int, Result] = {}
        for result in read_results(directory, number):
            if all_of_it.add(result):
                results[result.number] = result
        for line in sorted(results):
            write(results[line].line, results[line].is_answer)
    return all_of_it


def _write_unanswered(
    job: BulkJob, path: Path, max_line_bytes: int, tally: Tally, why: tuple[str, str], write: Write
) -> None:
    with suppress(FileNotFoundError):
        for line in read_lines(path, max_line_bytes):
            if line.number in tally.numbers:
                continue
            with suppress(LineError):
                custom_id = read_line(line.text, job.endpoint).custom_id
                write(unanswered_line(job.public_id, line.number, custom_id, why), False)
                tally.failed += 1


class _Writer:
    """Two files under way; one that stays empty is not kept."""

    def __init__(self, disk: FileDisk) -> None:
        self._disk = disk
        self._paths = (disk.new_part(), disk.new_part())
        self._files: tuple[BinaryIO, ...] = tuple(path.open("wb") for path in self._paths)

    def write(self, line: bytes, is_answer: bool) -> None:
        """Write a line into the one or the other."""
        file = self._files[0 if is_answer else 1]
        file.write(line)
        file.write(b"\n")

    def keep(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """Make them files; return id and bytes of answers and failures."""
        for file in self._files:
            file.close()
        answers, failures = (self._keep(path) for path in self._paths)
        return answers, failures

    def _keep(self, path: Path) -> tuple[str, int]:
        if not path.stat().st_size:
            return "", 0
        file_id = make_file_id()
        return file_id, self._disk.keep(path, file_id)

    def close(self) -> None:
        """Remove what was not kept."""
        for file, path in zip(self._files, self._paths, strict=True):
            file.close()
            path.unlink(missing_ok=True)
