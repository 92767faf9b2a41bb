from pathlib import Path

import pytest

from gateway_admin.supervisor.timeline import Timeline, read_times


def test_the_total_counts_what_came_before_and_not_what_overlaps() -> None:
    timeline = Timeline(earlier=[("install", 10.0)])
    timeline.add("gateway", 3.0)
    timeline.add("engine", 4.0)
    lines = timeline.table(5.0)
    assert [line.split()[-2] for line in lines] == ["10.0", "3.0", "4.0", "15.0"]


def test_times_of_the_installer_are_read(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"install: gateway packages": 1.5}')
    assert read_times(path) == [("install: gateway packages", 1.5)]
    path.write_text("[]")
    with pytest.raises(ValueError, match="does not hold"):
        read_times(path)
