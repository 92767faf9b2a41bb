import json
from pathlib import Path

from gateway_admin.supervisor.targets import remove_targets, targets_path, write_targets


def test_each_process_is_one_target_of_its_kind(tmp_path: Path) -> None:
    write_targets(tmp_path, {"worker-12": 2, "settlement": 1})
    assert json.loads(targets_path(tmp_path).read_text()) == [
        {"targets": ["127.0.0.1:1"], "labels": {"job": "sluice-settlement", "instance": "settlement"}},
        {"targets": ["127.0.0.1:2"], "labels": {"job": "sluice-worker", "instance": "worker-12"}},
    ]
    write_targets(tmp_path, {"embeddings-1": 3, "p0-worker-2": 4})
    labels = [target["labels"] for target in json.loads(targets_path(tmp_path).read_text())]
    assert labels == [{"job": "sluice-worker", "instance": name} for name in ("embeddings-1", "p0-worker-2")]
    remove_targets(tmp_path)
    assert not targets_path(tmp_path).exists()
