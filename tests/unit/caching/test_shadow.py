"""Last good answers on the disk."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import diskcache
import pytest

from caching.entry import Entry, compress
from caching.shadow import Shadow
from domain.usage import Usage
from tests.stack import ROOT

KEY = b"k" * 16


def entry(text: str = "a word", tenant_id: int = 7) -> Entry:
    return Entry(compress(f'{{"said": "{text}"}}'.encode()), "m@1", tenant_id, 1_000, Usage(3, 0, 2))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "shadow"


@pytest.fixture
def shadow(directory: Path) -> Iterator[Shadow]:
    made = Shadow(directory, 64 << 20)
    yield made
    made.close()


def test_what_was_kept_is_found_with_its_tag(shadow: Shadow) -> None:
    assert shadow.put(KEY, entry(), "7:a", 60)
    assert shadow.get(KEY) == (entry(), "7:a")
    assert shadow.get(b"x" * 16) is None
    assert shadow.failures == 0


def test_only_the_owner_may_look_into_the_directory(shadow: Shadow, directory: Path) -> None:
    directory.mkdir(parents=True, mode=0o755)
    shadow.put(KEY, entry(), "7:a", 60)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_a_restart_keeps_it(shadow: Shadow, directory: Path) -> None:
    shadow.put(KEY, entry(), "7:a", 60)
    shadow.close()
    assert Shadow(directory, 64 << 20).get(KEY) == (entry(), "7:a")


_OTHER_PROCESS = """
import sys
from pathlib import Path
from caching.entry import Entry, compress
from caching.shadow import Shadow
from domain.usage import Usage
shadow = Shadow(Path(sys.argv[1]), 64 << 20)
for number in range(int(sys.argv[2]), int(sys.argv[2]) + 50):
    body = compress(('{"said": "%s"}' % number).encode())
    assert shadow.put(number.to_bytes(16), Entry(body, "m@1", 7, 1_000, Usage(3, 0, 2)), "7:a", 60)
"""


def test_processes_share_it(directory: Path, shadow: Shadow) -> None:
    others = [
        subprocess.Popen([sys.executable, "-c", _OTHER_PROCESS, str(directory), first], cwd=ROOT)
        for first in ("0", "50")
    ]
    assert [other.wait(60) for other in others] == [0, 0]
    assert all(shadow.get(number.to_bytes(16)) == (entry(str(number)), "7:a") for number in range(100))


def test_it_forgets_the_oldest_beyond_its_bytes(directory: Path) -> None:
    shadow = Shadow(directory, 1 << 20)
    for number in range(400):
        body = os.urandom(8 << 10)
        shadow.put(number.to_bytes(16), Entry(compress(body), "m@1", 7, 1_000, Usage()), "7:a", 60)
    assert sum(file.stat().st_size for file in directory.rglob("*.val")) + _pages(directory) < 2 << 20
    assert shadow.get((0).to_bytes(16)) is None
    assert shadow.get((399).to_bytes(16)) is not None


def _pages(directory: Path) -> int:
    with sqlite3.connect(directory / "cache.db") as database:
        (pages,), (size,) = (database.execute(f"PRAGMA page_{of}").fetchone() for of in ("count", "size"))
    return int(pages * size)


def test_an_answer_whose_time_is_over_is_not_found(shadow: Shadow) -> None:
    shadow.put(KEY, entry(), "7:a", -1)
    assert shadow.get(KEY) is None


def test_a_sweep_leaves_no_trace_in_any_file(shadow: Shadow, directory: Path) -> None:
    small, large = entry("small"), Entry(compress(os.urandom(100 << 10)), "m@1", 7, 1_000, Usage())
    shadow.put(b"small" * 3, small, "7:a", 60)
    shadow.put(b"large" * 3, large, "7:a", 60)
    shadow.put(KEY, entry("other", 8), "8:a", 60)
    traces = (small.body, large.body[:64], b"small" * 3, b"large" * 3)
    assert all(_is_in(trace, directory) for trace in traces)
    assert shadow.sweep(lambda tag: tag == "8:a") == 2
    assert not any(_is_in(trace, directory) for trace in traces)
    assert shadow.get(KEY) == (entry("other", 8), "8:a")


def _is_in(trace: bytes, directory: Path) -> bool:
    return any(trace in file.read_bytes() for file in directory.rglob("*") if file.is_file())


def test_a_removed_directory_is_made_again(shadow: Shadow, directory: Path) -> None:
    shadow.put(KEY, entry(), "7:a", 60)
    shutil.rmtree(directory)
    assert shadow.get(KEY) is None
    assert shadow.put(KEY, entry(), "7:a", 60)
    assert shadow.get(KEY) == (entry(), "7:a")


def test_a_database_that_is_none_is_thrown_away(
    shadow: Shadow, directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory.mkdir(parents=True)
    (directory / "cache.db").write_bytes(os.urandom(8192))
    assert shadow.put(KEY, entry(), "7:a", 60) is False
    assert shadow.put(KEY, entry(), "7:a", 60) is True
    assert shadow.failures == 1
    assert len(caplog.records) == 1


def test_a_broken_database_is_thrown_away_under_way(shadow: Shadow, directory: Path) -> None:
    for number in range(200):
        shadow.put(number.to_bytes(16), entry(str(number)), "7:a", 60)
    shadow.sweep(lambda tag: tag != "none")
    shadow.close()
    size = (directory / "cache.db").stat().st_size
    with (directory / "cache.db").open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(size - 4096))
    for log in directory.glob("cache.db-*"):
        log.unlink()
    for number in range(200):
        shadow.get(number.to_bytes(16))  # whatever comes, nothing is raised
    assert shadow.failures > 0
    assert shadow.put(KEY, entry(), "7:a", 60)
    assert shadow.get(KEY) == (entry(), "7:a")


def test_an_answer_that_the_disk_gives_back_broken_is_not_given(shadow: Shadow, directory: Path) -> None:
    large = Entry(compress(os.urandom(100 << 10)), "m@1", 7, 1_000, Usage())
    shadow.put(KEY, large, "7:a", 60)
    (file,) = directory.rglob("*.val")
    content = bytearray(file.read_bytes())
    content[-50] ^= 1
    file.write_bytes(content)
    assert shadow.get(KEY) is None
    assert shadow.failures == 1


def test_nothing_that_others_pickled_is_run(shadow: Shadow, directory: Path) -> None:
    shadow.put(KEY, entry(), "7:a", 60)
    with diskcache.Cache(str(directory)) as other:
        other.set(KEY, {"an": "object"}, tag="7:a")
    assert shadow.get(KEY) is None
    assert shadow.failures == 1


def test_a_directory_that_cannot_be_made_costs_one_attempt_and_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    (tmp_path / "file").write_text("")
    shadow = Shadow(tmp_path / "file" / "shadow", 1 << 20, lambda: now_s)
    for _ in range(5):
        assert shadow.put(KEY, entry(), "7:a", 60) is False
        assert shadow.get(KEY) is None
    assert shadow.failures == 10
    assert len(caplog.records) == 1
    (tmp_path / "file").unlink()
    assert shadow.put(KEY, entry(), "7:a", 60) is False  # it was tried a moment ago
    now_s = 60.0
    assert shadow.put(KEY, entry(), "7:a", 60) is True


def test_a_full_disk_is_counted_and_what_is_there_is_still_found(shadow: Shadow, directory: Path) -> None:
    shadow.put(KEY, entry(), "7:a", 60)
    with shadow._opened().transact():  # the pages that there are must do from now on
        shadow._opened()._sql("PRAGMA max_page_count = 1")
    body = Entry(os.urandom(30 << 10), "m@1", 7, 1_000, Usage())
    assert not all(shadow.put(number.to_bytes(16), body, "7:a", 60) for number in range(50))
    assert shadow.failures > 0
    assert shadow.get(KEY) == (entry(), "7:a")


def test_a_writer_does_not_wait_long_for_another_process(shadow: Shadow, directory: Path) -> None:
    shadow.put(KEY, entry(), "7:a", 60)
    other = sqlite3.connect(directory / "cache.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert shadow.put(b"x" * 16, entry(), "7:a", 60) is False
    assert shadow.get(KEY) == (entry(), "7:a")  # readers wait for nobody
    other.execute("ROLLBACK")
    other.close()
    assert shadow.put(b"x" * 16, entry(), "7:a", 60) is True


def test_threads_share_it(shadow: Shadow) -> None:
    def work(first: int) -> None:
        for number in range(first, first + 30):
            shadow.put(number.to_bytes(16), entry(str(number)), "7:a", 60)
            shadow.get(number.to_bytes(16))

    threads = [threading.Thread(target=work, args=(first,)) for first in (0, 30, 60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert shadow.failures == 0
    assert all(shadow.get(number.to_bytes(16)) == (entry(str(number)), "7:a") for number in range(90))
