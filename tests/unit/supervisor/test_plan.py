from dataclasses import replace
from typing import Any

import pytest

from domain.config import Config, parse_config
from gateway_admin.supervisor.options import Options
from gateway_admin.supervisor.plan import Places, bulk_plan, embedding_plan, first_request, make_plan
from gateway_admin.supervisor.unit import Unit

SECRET = "hush"
PLACES = Places(
    listener_fd=7, redis_url=f"redis://:{SECRET}@127.0.0.1:1", valkey_config="/d/valkey.conf", flower_port=5
)


def options(engine: str = "vllm", gateways: int = 1, workers: int = 1, **more: Any) -> Options:
    return Options("127.0.0.1", 8000, gateways, workers, True, replace(Config(), engine=engine), {}, **more)


def plan(places: Places = PLACES, **given: Any) -> dict[str, Unit]:
    return {unit.name: unit for unit in make_plan(options(**given), places)}


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


def test_workers_for_p0_serve_nothing_else_and_have_their_own_cores() -> None:
    units = plan(workers=1, worker_cores="0,1", p0_workers=2, p0_cores="2")
    assert units["worker-1"].env == {"SLUICE_WORKER_ID": "worker-1", "SLUICE_WORKER_CORES": "0,1"}
    assert units["p0-worker-2"].env == {
        "SLUICE_WORKER_ID": "p0-worker-2",
        "SLUICE_WORKER_CLASSES": "p0",
        "SLUICE_WORKER_CORES": "2",
    }
    assert units["p0-worker-1"].after == units["worker-1"].after


def test_without_options_workers_take_what_the_environment_says() -> None:
    units = plan(p0_workers=1)
    assert units["worker-1"].env == {"SLUICE_WORKER_ID": "worker-1"}
    assert "SLUICE_WORKER_CORES" not in units["p0-worker-1"].env


def test_embeddings_join_only_if_wanted_and_wait_for_their_own_model() -> None:
    assert embedding_plan(options()) == []
    model, worker = embedding_plan(options(has_embeddings=True))
    assert worker.after == {model.name}
    assert (worker.name, worker.env["SLUICE_ENGINE"], worker.env["OMP_NUM_THREADS"]) == ("embeddings-1", "padded", "1")
    assert worker.env["SLUICE_MODEL"] in model.argv
    assert {"embeddings-1", "embedding-model"} & plan(has_embeddings=True).keys() == set()


def test_processes_for_batches_join_under_names_of_their_own() -> None:
    assert bulk_plan(options()) == []
    first, second = bulk_plan(options(bulk=2))
    assert (first.name, first.env, first.has_metrics) == ("bulk-1", {"SLUICE_GATEWAY_ID": "bulk-1"}, True)
    assert second.name == "bulk-2"
    assert {"bulk-1", "bulk-2"} & plan(bulk=2).keys() == set()


def test_the_environment_of_the_embedding_worker_is_valid_whatever_the_chat_model_has() -> None:
    _, worker = embedding_plan(options(has_embeddings=True))
    chat = {"SLUICE_MAX_MODEL_LEN": "8192", "SLUICE_DTYPE": "bfloat16", "SLUICE_SERVED_MODEL": "big"}
    config = parse_config({**chat, **{k: v for k, v in worker.env.items() if k.startswith("SLUICE_")}}, lambda _: "")
    assert (config.engine, config.model_name, config.dtype) == ("padded", "all-minilm-l6-v2", "auto")
    assert (config.max_model_len, config.model_aliases, config.worker_cores) == (0, (), ())


@pytest.mark.parametrize(("engine", "endpoint"), [("vllm", "chat"), ("simulator", "chat"), ("padded", "embeddings")])
def test_the_first_request_asks_for_what_the_engine_does(engine: str, endpoint: str) -> None:
    assert first_request(options(engine=engine)).argv[-1] == endpoint
    assert ("model" in plan(engine=engine)) == (engine != "simulator")
