from pathlib import Path

from gateway_admin.supervisor.family import Family
from gateway_admin.supervisor.logs import Logs
from gateway_admin.supervisor.unit import Kind, Stage, Unit


def test_a_units_own_setting_replaces_the_shared_one_and_its_file(tmp_path: Path) -> None:
    shared = {"SLUICE_MODEL_FILE": "/run/model", "SLUICE_ENGINE": "vllm", "SLUICE_REDIS_URL_FILE": "/run/redis"}
    family = Family(tmp_path, shared, Logs(tmp_path), lambda: 5)
    unit = Unit("a", "a", ("true",), Kind.SERVICE, Stage.WORKERS, env={"SLUICE_MODEL": "m", "SLUICE_ENGINE": "padded"})

    assert family._environment(unit) == {
        "SLUICE_MODEL": "m",
        "SLUICE_ENGINE": "padded",
        "SLUICE_REDIS_URL_FILE": "/run/redis",
    }
