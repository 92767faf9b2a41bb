from pathlib import Path

import pytest

from gateway_admin.supervisor.logs import Logs


def write(logs: Logs, text: str) -> None:
    with open(logs.open("a"), "a") as file:
        file.write(text)


def test_earlier_logs_move_up_and_the_oldest_goes(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    for number in range(6):
        logs.rotate("a")
        write(logs, f"start {number}\n")
    found = {path.name: path.read_text() for path in logs.directory.iterdir()}
    assert found == {
        "a.log": "start 5\n",
        "a.log.1": "start 4\n",
        "a.log.2": "start 3\n",
        "a.log.3": "start 2\n",
    }


def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    write(logs, "x")
    assert logs.path("a").stat().st_mode & 0o777 == 0o600


def test_the_tail_skips_blank_lines_and_survives_bytes_that_are_no_text(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.path("a").write_bytes(b"one\n\ntwo \xff\n\n")
    assert logs.tail("a", 5) == ["one", "two \ufffd"]
    assert logs.tail("a", 1) == ["two \ufffd"]
    assert logs.tail("missing", 5) == []


@pytest.mark.parametrize(
    ("line", "short"),
    [
        ("", ""),
        ("ValueError: no", "ValueError: no"),
        ('{"event": "engine_dead", "reason": "out of memory"}', "engine_dead: out of memory"),
        ('{"event": "failed", "exception": "Traceback\\n  x\\nKeyError: 1"}', "failed: KeyError: 1"),
        ('{"event": "started"}', "started"),
        ("[1]", "[1]"),
        ("x" * 500, "x" * 200),
    ],
)
def test_the_last_line_is_made_short_for_a_person(tmp_path: Path, line: str, short: str) -> None:
    logs = Logs(tmp_path)
    write(logs, f"before\n{line}\n" if line else "")
    assert logs.last_line("a") == short
