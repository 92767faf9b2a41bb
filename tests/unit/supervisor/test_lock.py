import os
import subprocess
import sys
from pathlib import Path

import pytest

from gateway_admin.supervisor.lock import AlreadyRunning, Lock, holder, lock_path


def test_the_second_is_told_who_holds_it(tmp_path: Path) -> None:
    lock = Lock.take(tmp_path)
    with pytest.raises(AlreadyRunning) as refused:
        Lock.take(tmp_path)
    assert refused.value.pid == holder(tmp_path) == os.getpid()
    lock.release()


def test_it_can_be_taken_again_after_release_and_leaves_no_file(tmp_path: Path) -> None:
    Lock.take(tmp_path).release()
    assert holder(tmp_path) is None
    assert not lock_path(tmp_path).exists()
    Lock.take(tmp_path).release()


def test_the_file_of_a_dead_holder_does_not_bar_the_next(tmp_path: Path) -> None:
    lock_path(tmp_path).write_text("999999\n")
    assert holder(tmp_path) is None
    lock = Lock.take(tmp_path)
    assert holder(tmp_path) == os.getpid()
    lock.release()


def test_a_child_does_not_keep_it(tmp_path: Path) -> None:
    lock = Lock.take(tmp_path)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        lock.release()
        assert holder(tmp_path) is None
        Lock.take(tmp_path).release()
        child.communicate(b"\n")
