"""Launches at the GPU's driver are counted by stream where the kernel allows it; a stand-in is the driver."""

import _ctypes
import ctypes
import errno
import os
import platform
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from domain.trace.launches import DRIVER, WINDOW_US, Launches
from tests.unit.tracing.tiny_library import CODE, write_library
from tracing.clock import now_us
from tracing.kernel import driver_probe, uprobe
from tracing.kernel.driver_probe import FUNCTION, CannotProbe, DriverProbe, library_of
from tracing.kernel.elf import file_offset

pytestmark = pytest.mark.skipif(platform.machine() not in CODE, reason="the stand-in is not written for this machine")


@pytest.fixture
def libcuda(tmp_path: Path) -> Path:
    return write_library(tmp_path / "libcuda.so.1", FUNCTION)


@pytest.fixture
def probe(libcuda: Path) -> Iterator[DriverProbe]:
    made = DriverProbe(libcuda, [os.getpid()])
    try:
        made.start()
    except CannotProbe as error:
        pytest.skip(f"no probe here: {error}")
    yield made
    made.stop()


@contextmanager
def loaded(library: Path) -> Iterator[ctypes.CDLL]:
    opened = ctypes.CDLL(str(library))
    yield opened
    _ctypes.dlclose(opened._handle)  # type: ignore[attr-defined]  # Linux has it


def launch(library: Path, stream: int, times: int) -> None:
    with loaded(library) as opened:
        function = getattr(opened, FUNCTION)
        function.argtypes = [ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3]
        for _ in range(times):
            assert function(1, 2, 3, 4, 5, 6, 7, 8, stream, None, None) == 0


def by_stream(found: list[Launches]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for one in found:
        counted[one.name] += one.count
    return counted


def test_every_launch_is_counted_by_stream_and_time(probe: DriverProbe, libcuda: Path) -> None:
    begin_us = now_us()
    launch(libcuda, 0xABC, 300)
    launch(libcuda, 0x7F0012345678, 200)
    end_us = now_us()
    found = probe.take()

    assert by_stream(found) == {"0xabc": 300, "0x7f0012345678": 200}
    assert {(one.pid, one.layer) for one in found} == {(os.getpid(), DRIVER)}
    assert all(begin_us - 2 * WINDOW_US < one.from_us < end_us + WINDOW_US for one in found)
    assert probe.take() == []


def test_launches_of_other_processes_are_left_out(libcuda: Path, probe: DriverProbe) -> None:
    others = DriverProbe(libcuda, [os.getpid() + 1])
    others.start()
    try:
        launch(libcuda, 1, 20)
        assert others.take() == []
    finally:
        others.stop()
    assert by_stream(probe.take()) == {"0x1": 20}


def test_a_stopped_probe_is_gone(probe: DriverProbe, libcuda: Path) -> None:
    assert _events() > 0
    probe.stop()
    launch(libcuda, 1, 20)

    assert _events() == 0
    assert probe.take() == []


def _events() -> int:
    """Perf events that this process holds."""
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum("perf_event" in os.readlink(link) for link in links if link.is_symlink())


@pytest.fixture
def one_core() -> Iterator[None]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("one_core")  # each has a ring, which tells of its losses when it is written next
def test_a_full_ring_tells_how_many_calls_were_lost(libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uprobe, "RING_PAGES", 1)
    try:
        few = uprobe.Uprobe(libcuda, FUNCTION, 32)
    except CannotProbe as error:
        pytest.skip(f"no probe here: {error}")
    try:
        launch(libcuda, 1, 2_000)
        seen = len(list(few.calls()))
        launch(libcuda, 1, 1)
        seen += len(list(few.calls()))
    finally:
        few.close()
    assert 0 < seen < 2_001
    assert seen + few.lost == 2_001


# --- where it cannot be ---------------------------------------------------------------------------------------------


def test_the_drivers_library_is_found_in_a_process_that_has_loaded_it(libcuda: Path) -> None:
    with loaded(libcuda):
        assert library_of([os.getpid()]) == libcuda
    with pytest.raises(CannotProbe, match="no process of the engine has loaded libcuda"):
        library_of([])


def test_a_function_is_found_where_the_file_has_it(libcuda: Path) -> None:
    offset = file_offset(libcuda, FUNCTION)
    code = CODE[platform.machine()]
    assert libcuda.read_bytes()[offset : offset + len(code)] == code


@pytest.mark.parametrize("content", ["other function", "text", "nothing", "cut"])
def test_a_library_without_the_function_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "libcuda.so"
    if content == "other function":
        write_library(path, f"{FUNCTION}Ex")
    elif content == "cut":
        path.write_bytes(write_library(path, FUNCTION).read_bytes()[:200])
    else:
        path.write_text("no library" if content == "text" else "")
    with pytest.raises(CannotProbe, match=str(path)):
        DriverProbe(path, []).start()


def test_a_kernel_without_uprobes_is_named(libcuda: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uprobe, "PMU", tmp_path / "missing")
    with pytest.raises(CannotProbe, match="this kernel has no uprobes"):
        DriverProbe(libcuda, []).start()


@pytest.mark.parametrize(
    ("error", "words"),
    [(errno.EACCES, "lets only root"), (errno.EPERM, "lets only root"), (errno.EMFILE, "Too many open files")],
)
def test_a_refusal_of_the_kernel_is_told(
    libcuda: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, words: str
) -> None:
    def refuse(_attributes: bytes, _cpu: int) -> None:
        raise OSError(error, os.strerror(error))

    kind = tmp_path / "type"
    kind.write_text("9\n")
    monkeypatch.setattr(uprobe, "PMU", kind)
    monkeypatch.setattr(uprobe, "_ring", refuse)
    with pytest.raises(CannotProbe, match=words):
        DriverProbe(libcuda, []).start()


def test_a_machine_whose_calls_are_not_known_is_named(libcuda: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_probe.platform, "machine", lambda: "mips")
    with pytest.raises(CannotProbe, match="on a mips is not known"):
        DriverProbe(libcuda, []).start()
