from dataclasses import replace

import pytest

from domain.config import Config
from gateway_admin.supervisor.options import Options
from gateway_admin.supervisor.plan import Places, make_plan
from gateway_admin.supervisor.unit import Unit

SECRET = "hush"
PLACES = Places(
    listener_fd=7, redis_url=f"redis://:{SECRET}@127.0.0.1:1", valkey_config="/d/valkey.conf", flower_port=5
)


def plan(places: Places = PLACES, engine: str = "vllm", gateways: int = 1, workers: int = 1) -> dict[str, Unit]:
    options = Options("127.0.0.1", 8000, gateways, workers, True, replace(Config(), engine=engine), {})
    return {unit.name: unit for unit in make_plan(options, places)}


def test_every_unit_waits_only_for_units_before_it() -> None:
    seen: set[str] = set()
    for unit in plan(gateways=2, workers=2).values():
        assert unit.after <= seen
        seen.add(unit.name)


def test_the_gateway_answers_while_the_model_is_still_prepared() -> None:
    units = plan()
    assert "model" not in units["gateway-1"].after
    assert "model" in units["worker-1"].after


def test_the_simulator_needs_no_model_files() -> None:
    assert "model" not in plan(engine="simulator")


def test_a_given_redis_means_no_valkey() -> None:
    units = plan(replace(PLACES, valkey_config=""))
    assert "valkey" not in units
    assert all("valkey" not in unit.after for unit in units.values())


def test_flower_can_be_left_out() -> None:
    assert "flower" not in plan(replace(PLACES, flower_port=0))


def test_each_gateway_and_worker_has_its_own_name() -> None:
    units = plan(gateways=3, workers=2)
    assert {"gateway-1", "gateway-2", "gateway-3", "worker-1", "worker-2"} <= units.keys()
    assert units["gateway-3"].env == {"SLUICE_GATEWAY_ID": "gateway-3"}


@pytest.mark.parametrize("engine", ["vllm", "simulator"])
def test_no_command_line_holds_a_secret(engine: str) -> None:
    assert not any(SECRET in word for unit in plan(engine=engine).values() for word in unit.argv)
