import json
from pathlib import Path

from gateway_admin.supervisor.ready_file import Ready, read_ready, ready_path, remove_ready, write_ready

READY = Ready("http://127.0.0.1:1/v1", "sk-1", "http://127.0.0.1:1/admin/", "admin", "pw", None, 7)


def test_only_the_owner_can_read_it(tmp_path: Path) -> None:
    write_ready(tmp_path, READY)
    assert ready_path(tmp_path).stat().st_mode & 0o777 == 0o600


def test_it_holds_exactly_the_promised_names(tmp_path: Path) -> None:
    write_ready(tmp_path, READY)
    names = {"base_url", "api_key", "admin_url", "admin_user", "admin_password", "flower_url", "pid"}
    assert json.loads(ready_path(tmp_path).read_text()).keys() == names


def test_what_another_supervisor_left_is_not_believed(tmp_path: Path) -> None:
    write_ready(tmp_path, READY)
    assert read_ready(tmp_path, 7) == READY
    assert read_ready(tmp_path, 8) is None


def test_it_is_never_half_written(tmp_path: Path) -> None:
    write_ready(tmp_path, READY)
    write_ready(tmp_path, READY)
    assert [path.name for path in tmp_path.iterdir()] == ["ready.json"]


def test_a_damaged_or_missing_file_reads_as_not_ready(tmp_path: Path) -> None:
    assert read_ready(tmp_path, 7) is None
    ready_path(tmp_path).write_text('{"base_url": 1')
    assert read_ready(tmp_path, 7) is None
    ready_path(tmp_path).write_text("{}")
    assert read_ready(tmp_path, 7) is None
    remove_ready(tmp_path)
    remove_ready(tmp_path)
    assert not ready_path(tmp_path).exists()
