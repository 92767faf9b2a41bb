import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway_admin.supervisor.strays import Record, end_strays, read_records, record_of, records_path, write_records

# A helper that ignores SIGTERM, started by a leader that then ends: what a killed worker leaves.
LEAVES_A_HELPER = (
    "import subprocess, sys, time;"
    "code = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(99)';"
    "helper = subprocess.Popen([sys.executable, '-c', code], stdout=subprocess.PIPE);"
    "helper.stdout.readline();"
    "print(helper.pid, flush=True);"
    "time.sleep(600)"
)


@pytest.fixture
def leader() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_A_HELPER], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        yield process
        process.kill()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_helpers_of_a_dead_child_are_ended(tmp_path: Path, leader: "subprocess.Popen[str]") -> None:
    assert leader.stdout is not None
    helper = int(leader.stdout.readline())
    write_records(tmp_path, [record_of("worker-1", leader.pid)])
    leader.send_signal(signal.SIGKILL)
    leader.wait()
    assert is_alive(helper)
    assert end_strays(tmp_path) == 1
    assert not is_alive(helper)
    assert not records_path(tmp_path).exists()


def test_a_stranger_with_the_same_number_is_left_alone(tmp_path: Path, leader: "subprocess.Popen[str]") -> None:
    record = record_of("worker-1", leader.pid)
    write_records(tmp_path, [Record("worker-1", leader.pid, record.start_tick - 1)])
    assert end_strays(tmp_path) == 0
    assert is_alive(leader.pid)


def test_records_from_before_a_reboot_mean_nothing(tmp_path: Path) -> None:
    write_records(tmp_path, [Record("worker-1", 4242, 1)])
    content = json.loads(records_path(tmp_path).read_text())
    assert read_records(tmp_path) == [Record("worker-1", 4242, 1)]
    records_path(tmp_path).write_text(json.dumps(content | {"boot_id": "another"}))
    assert read_records(tmp_path) == []


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"boot_id": 1'])
def test_a_damaged_record_means_nothing(tmp_path: Path, content: str) -> None:
    records_path(tmp_path).write_text(content)
    assert end_strays(tmp_path) == 0
