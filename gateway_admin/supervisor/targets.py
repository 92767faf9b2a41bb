"""``prometheus_targets.json``: where each process serves its figures, as Prometheus's file discovery reads it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from gateway_admin.supervisor.files import write_private

# All workers are one job, whatever they serve.
_JOBS = {"p0-worker": "worker", "embeddings": "worker"}


def targets_path(data_dir: Path) -> Path:
    """Where the file of ``data_dir`` lives."""
    return data_dir / "prometheus_targets.json"


def write_targets(data_dir: Path, ports: Mapping[str, int]) -> None:
    """Write one target for each process of ``ports`` (name to loopback port).

    Raises:
        OSError: the data directory cannot be written.
    """
    targets = [
        {
            "targets": [f"127.0.0.1:{port}"],
            "labels": {"job": f"sluice-{_job(name)}", "instance": name},
        }
        for name, port in sorted(ports.items())
    ]
    write_private(targets_path(data_dir), json.dumps(targets, indent=2) + "\n")


def _job(name: str) -> str:
    kind = re.sub(r"-[0-9]+$", "", name)
    return _JOBS.get(kind, kind)


def remove_targets(data_dir: Path) -> None:
    """Remove the file, if there is one."""
    targets_path(data_dir).unlink(missing_ok=True)
