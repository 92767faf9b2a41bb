"""Which processes make one instance, and in which order they come up and go down."""

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from domain.config import Config
from gateway_admin.supervisor.credentials import api_key_path
from gateway_admin.supervisor.options import Options
from gateway_admin.supervisor.probe import answers_ok, engine_serves
from gateway_admin.supervisor.unit import Kind, Stage, Unit
from gateway_admin.supervisor.valkey import answers, valkey_binary
from workers.engines.models import minilm

VALKEY = "valkey"
DATABASE = "database"
MODEL = "model"
FIRST_REQUEST = "first-request"
EMBEDDING_MODEL = "embedding-model"
EMBEDDINGS = "embeddings-1"
_PURGE_OFFLINE_S = 10

# Those of the chat model's engine are not for this one: a small model on one core, beside an engine that takes the
# others or the GPU. There larger passes gain nothing, and an urgent request waits for the one that runs.
_EMBEDDING_SETTINGS = {
    "SLUICE_ENGINE": "padded",
    "SLUICE_MODEL": minilm.MODEL_ID,
    "SLUICE_SERVED_MODEL": "",
    "SLUICE_MODEL_ALIASES": "",
    "SLUICE_DTYPE": "auto",
    "SLUICE_MAX_MODEL_LEN": "0",
    "SLUICE_MAX_NUM_SEQS": "32",
    "SLUICE_MAX_NUM_BATCHED_TOKENS": "1024",
    "SLUICE_WORKER_CLASSES": "p0,p1,p2",
    "SLUICE_WORKER_CORES": "",
    "OMP_NUM_THREADS": "1",
    "CUDA_VISIBLE_DEVICES": "",
}


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
    if options.config.engine != "simulator":
        units.append(_model(MODEL, options.config.model, options.config))
    units.append(_database())
    base = frozenset(unit.name for unit in units if unit.name != MODEL)
    work = frozenset(unit.name for unit in units)
    units += [_gateway(number, options, places, base) for number in range(1, options.gateways + 1)]
    units.append(_settlement(base))
    cores = {"SLUICE_WORKER_CORES": options.worker_cores} if options.worker_cores else {}
    units += [_worker(f"worker-{number}", work, cores) for number in range(1, options.workers + 1)]
    units += [_p0_worker(number, options, work) for number in range(1, options.p0_workers + 1)]
    if places.flower_port:
        units.append(_flower(places, work))
    return units


def embedding_plan(options: Options) -> list[Unit]:
    """What joins a ready instance so that it embeds too; nothing waits for it."""
    if not options.has_embeddings:
        return []
    return [
        _model(EMBEDDING_MODEL, minilm.MODEL_ID, options.config),
        replace(
            _worker(EMBEDDINGS, frozenset({EMBEDDING_MODEL}), _EMBEDDING_SETTINGS),
            is_up=lambda: engine_serves(options.root_url, EMBEDDINGS),
        ),
    ]


def bulk_plan(options: Options) -> list[Unit]:
    """What joins a ready instance so that it works off batches; nothing waits for it."""
    return [_bulk(f"bulk-{number}") for number in range(1, options.bulk + 1)]


def first_request(options: Options) -> Unit:
    """One real request through the front door."""
    endpoint = "embeddings" if options.config.engine == "padded" else "chat"
    arguments = (f"{options.root_url}/v1", options.config.model_name, str(api_key_path(options.data_dir)), endpoint)
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


def _model(name: str, model: str, config: Config) -> Unit:
    arguments = ("--model", model, "--models-dir", str(config.models_dir))
    return Unit(
        name=name,
        label="model files" if name == MODEL else f"files of {model}",
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


def _bulk(name: str) -> Unit:
    return Unit(
        name=name,
        label="bulk",
        argv=_python("gateway.bulk"),
        kind=Kind.SERVICE,
        stage=Stage.GATEWAYS,
        env={"SLUICE_GATEWAY_ID": name},
        has_metrics=True,
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


def _p0_worker(number: int, options: Options, after: frozenset[str]) -> Unit:
    cores = {"SLUICE_WORKER_CORES": options.p0_cores} if options.p0_cores else {}
    return _worker(f"p0-worker-{number}", after, {"SLUICE_WORKER_CLASSES": "p0", **cores})


def _worker(name: str, after: frozenset[str], env: Mapping[str, str]) -> Unit:
    return Unit(
        name=name,
        label="worker",
        argv=_python("workers"),
        kind=Kind.SERVICE,
        stage=Stage.WORKERS,
        after=after,
        env={"SLUICE_WORKER_ID": name, **env},
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
