"""A file's contents and its row are both there in the end, or neither."""

from datetime import timedelta
from pathlib import Path

import pytest

from gateway.files.new_file import Abandoned, NewFile
from tenants.files import rows
from tenants.files.disk import FileDisk, make_file_id
from tenants.models import StoredFile

FILE_ID = make_file_id()


@pytest.fixture
def disk(tmp_path: Path) -> FileDisk:
    """A disk with the contents of one file."""
    made = FileDisk(tmp_path)
    made.keep(made.new_part(), FILE_ID)
    return made


@pytest.fixture
def new(disk: FileDisk) -> NewFile:
    return NewFile(disk, 1, FILE_ID, "a.jsonl", 0, timedelta(days=1))


def written(*_: object) -> StoredFile:
    return StoredFile(public_id=FILE_ID)


def test_contents_stay_when_the_row_is_written(disk: FileDisk, new: NewFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "add_file", written)

    assert new.write().public_id == FILE_ID
    assert disk.path(FILE_ID).exists()


def test_contents_go_when_the_row_is_not_written(disk: FileDisk, new: NewFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise rows.TooMuchStored(1, 1)

    monkeypatch.setattr(rows, "add_file", full)

    with pytest.raises(rows.TooMuchStored):
        new.write()
    assert not disk.path(FILE_ID).exists()


def test_contents_go_at_once_when_nobody_began_to_write_the_row(
    disk: FileDisk, new: NewFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "add_file", None)

    new.abandon()

    assert not disk.path(FILE_ID).exists()
    with pytest.raises(Abandoned):
        new.write()


@pytest.mark.parametrize("in_use", [False, True])
def test_a_row_that_comes_too_late_is_taken_back_unless_a_batch_reads_it(
    disk: FileDisk, new: NewFile, monkeypatch: pytest.MonkeyPatch, in_use: bool
) -> None:
    def slow(*facts: object) -> StoredFile:
        new.abandon()
        assert disk.path(FILE_ID).exists()
        return written(*facts)

    def delete(*_: object) -> bool:
        if in_use:
            raise rows.FileInUse("batch_1")
        return True

    monkeypatch.setattr(rows, "add_file", slow)
    monkeypatch.setattr(rows, "delete_file", delete)

    with pytest.raises(Abandoned):
        new.write()
    assert disk.path(FILE_ID).exists() is in_use
