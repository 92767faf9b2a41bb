"""Run a whole instance: ``manage.py up``."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from domain.config import ConfigError
from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.instance import StoreUnreachable, run_instance
from gateway_admin.supervisor.lock import AlreadyRunning
from gateway_admin.supervisor.options import Options, merge_settings
from gateway_admin.supervisor.ports import CannotListen
from gateway_admin.supervisor.ready_file import read_ready, ready_path
from gateway_admin.supervisor.timeline import Timeline, read_times

_SETTINGS = {
    "engine": "vllm, padded (embedding models) or simulator",
    "model": "Hugging Face id or path of the model",
    "data-dir": "where the database, logs and ready.json live (.sluice)",
    "dtype": "auto, float32, bfloat16 or float16",
    "max-num-seqs": "sequences that an engine runs at once",
    "sim-profile": "the simulator's step times",
    "redis-url": "use this Redis or Valkey instead of an embedded one",
    "database-url": "use this Postgres instead of SQLite",
}


class Command(BaseCommand):
    """Starts the store, gateways, workers, settlement and Flower, and keeps them up until it is stopped."""

    help = "Run a whole instance until Ctrl-C or SIGTERM. Each setting can also be given as SLUICE_<NAME>."
    # The database is not there yet, and the checks are the children's business too.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        for name, text in _SETTINGS.items():
            parser.add_argument(f"--{name}", help=text)
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument("--port", type=_port, default=8000, help="port to listen on (8000)")
        parser.add_argument("--gateways", type=_count, default=1, help="gateway processes (1)")
        parser.add_argument("--workers", type=_count, default=1, help="worker processes, one engine each (1)")
        parser.add_argument("--worker-cores", type=_cores, help="CPU cores of the workers, such as 0,1,2")
        parser.add_argument("--p0-workers", type=_count_or_none, default=0, help="further workers, for P0 only (0)")
        parser.add_argument("--p0-cores", type=_cores, help="CPU cores of the workers for P0")
        parser.add_argument(
            "--bulk", type=_count_or_none, default=1, help="processes that work off batches (1); 0 for none"
        )
        parser.add_argument(
            "--embeddings",
            action=argparse.BooleanOptionalAction,
            help="a worker for embeddings joins once all is ready (with --engine vllm it does)",
        )
        parser.add_argument("--no-flower", action="store_true", help="run without Flower")
        parser.add_argument("--times", type=Path, help=argparse.SUPPRESS)  # what the installer measured

    def handle(self, *args: Any, **given: Any) -> None:
        options = _read_options(given)
        console = Console(sys.stdout, no_color=bool(os.environ.get("NO_COLOR")) or given["no_color"])
        timeline = Timeline(earlier=_earlier(given["times"]))
        try:
            status = run_instance(options, console, timeline)
        except AlreadyRunning as running:
            console.show(_already_running(options.data_dir, running.pid))
            return
        except (CannotListen, StoreUnreachable, OSError) as error:
            raise CommandError(str(error)) from error
        if status:
            sys.exit(status)


def _read_options(given: dict[str, Any]) -> Options:
    names = [name.replace("-", "_") for name in _SETTINGS]
    try:
        config, environ = merge_settings(os.environ, {name: given[name] for name in names})
    except ConfigError as error:
        raise CommandError(str(error)) from error
    if given["p0_cores"] and not given["p0_workers"]:
        raise CommandError("--p0-cores is for the workers that --p0-workers adds: give both.")
    return Options(
        host=given["host"],
        port=given["port"],
        gateways=given["gateways"],
        workers=given["workers"],
        has_flower=not given["no_flower"],
        config=config,
        environ=environ,
        worker_cores=given["worker_cores"] or "",
        p0_workers=given["p0_workers"],
        p0_cores=given["p0_cores"] or "",
        bulk=given["bulk"],
        has_embeddings=config.engine == "vllm" if given["embeddings"] is None else given["embeddings"],
    )


def _already_running(data_dir: Path, pid: int) -> str:
    ready = read_ready(data_dir, pid)
    where = f"base URL {ready.base_url}, API key in {ready_path(data_dir)}" if ready else "it is still starting"
    return f"Sluice is already running on {data_dir} (pid {pid}): {where}."


def _earlier(path: Path | None) -> list[tuple[str, float]]:
    if path is None:
        return []
    try:
        return read_times(path)
    except (OSError, ValueError) as error:
        raise CommandError(f"--times: {error}") from error


def _port(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 65535:
        raise argparse.ArgumentTypeError(f"must be between 1 and 65535, not {number}")
    return number


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


def _count_or_none(text: str) -> int:
    return 0 if text == "0" else _count(text)


def _cores(text: str) -> str:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise argparse.ArgumentTypeError(f"must be numbers of CPU cores, comma separated, not {text!r}")
    return ",".join(parts)
