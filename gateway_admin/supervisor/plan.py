"""Which processes make one instance, and in which order they come up and go down."""

import signal
import sys
from dataclasses import dataclass

from domain.config import Config
from gateway_admin.supervisor.credentials import api_key_path
from gateway_admin.supervisor.options import Options
from gateway_admin.supervisor.probe import answers_ok
from gateway_admin.supervisor.unit import Kind, Stage, Unit
from gateway_admin.supervisor.valkey import answers, valkey_binary

VALKEY = "valkey"
DATABASE = "database"
MODEL = "model"
FIRST_REQUEST = "first-request"
_PURGE_OFFLINE_S = 10


@dataclass(frozen=True, slots=True)
class Places:
    """Where the processes of one instance meet.

    Attributes:
        listener_fd: the public listening socket, inherited by the gateways.
        redis_url: of the Valkey in use, with its password, without a database number.
        valkey_config: configuration file of the embedded one; empty when it is somebody else's.
        flower_port: loopback port of Flower; 0 for none.
    """

    listener_fd: int
    redis_url: str
    valkey_config: str
    flower_port: int


def make_plan(options: Options, places: Places) -> list[Unit]:
    """All units up to an instance that has an engine in service, in the order in which they start."""
    units = [_valkey(places)] if places.valkey_config else []
    if options.config.engine == "vllm":
        units.append(_model(options.config))
    units.append(_database())
    base = frozenset(unit.name for unit in units if unit.name != MODEL)
    work = frozenset(unit.name for unit in units)
    units += [_gateway(number, options, places, base) for number in range(1, options.gateways + 1)]
    units.append(_settlement(base))
    units += [_worker(number, work) for number in range(1, options.workers + 1)]
    if places.flower_port:
        units.append(_flower(places, work))
    return units


def first_request(options: Options) -> Unit:
    """One real request through the front door."""
    arguments = (f"{options.root_url}/v1", options.config.model_name, str(api_key_path(options.data_dir)))
    return Unit(
        name=FIRST_REQUEST,
        label="first answer",
        argv=_python("gateway_admin.supervisor.first_request", *arguments),
        kind=Kind.JOB,
        stage=Stage.JOBS,
        attempts=3,
    )


def _python(module: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", module, *arguments)


def _valkey(places: Places) -> Unit:
    return Unit(
        name=VALKEY,
        label="Valkey",
        argv=(valkey_binary(), places.valkey_config),
        kind=Kind.SERVICE,
        stage=Stage.VALKEY,
        death_signal=signal.SIGTERM,  # it then writes its file to the end
        is_up=lambda: answers(places.redis_url),
    )


def _database() -> Unit:
    return Unit(
        name=DATABASE,
        label="database",
        argv=_python("gateway_admin.supervisor.database"),
        kind=Kind.JOB,
        stage=Stage.JOBS,
        attempts=1,
    )


def _model(config: Config) -> Unit:
    arguments = ("--model", config.model, "--models-dir", str(config.models_dir))
    return Unit(
        name=MODEL,
        label="model files",
        argv=_python("workers.engines.models.prepare", *arguments),
        kind=Kind.JOB,
        stage=Stage.JOBS,
        attempts=2,
    )


def _gateway(number: int, options: Options, places: Places, after: frozenset[str]) -> Unit:
    name = f"gateway-{number}"
    return Unit(
        name=name,
        label="gateway",
        argv=_python("gateway_admin.serve", "--fd", str(places.listener_fd)),
        kind=Kind.SERVICE,
        stage=Stage.GATEWAYS,
        after=after,
        env={"SLUICE_GATEWAY_ID": name},
        pass_fds=(places.listener_fd,),
        has_metrics=True,
        is_up=lambda: answers_ok(f"{options.root_url}/livez"),
    )


def _settlement(after: frozenset[str]) -> Unit:
    return Unit(
        name="settlement",
        label="settlement",
        argv=_python("workers.settlement"),
        kind=Kind.SERVICE,
        stage=Stage.SETTLEMENT,
        after=after,
        has_metrics=True,
    )


def _worker(number: int, after: frozenset[str]) -> Unit:
    name = f"worker-{number}"
    return Unit(
        name=name,
        label="worker",
        argv=_python("workers"),
        kind=Kind.SERVICE,
        stage=Stage.WORKERS,
        after=after,
        env={"SLUICE_WORKER_ID": name},
        has_metrics=True,
    )


def _flower(places: Places, after: frozenset[str]) -> Unit:
    # Loopback only: some of its pages stay open whatever its own login says. The broker's URL, which holds a
    # password, reaches it through the settings.
    options = ("--address=127.0.0.1", f"--port={places.flower_port}", f"--purge_offline_workers={_PURGE_OFFLINE_S}")
    return Unit(
        name="flower",
        label="Flower",
        argv=_python("celery", "-A", "workers.app", "flower", *options),
        kind=Kind.SERVICE,
        stage=Stage.FLOWER,
        after=after,
        is_up=lambda: answers_ok(f"http://127.0.0.1:{places.flower_port}/healthcheck"),
    )
