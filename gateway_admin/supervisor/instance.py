"""One run of ``manage.py up``, from an empty directory to the last removed file."""

import contextlib
import os
import random
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway_admin.secret import secret_key_file
from gateway_admin.supervisor.announcement import Served, announce
from gateway_admin.supervisor.console import Console
from gateway_admin.supervisor.credentials import (
    ADMIN_USER,
    Credentials,
    api_key_path,
    keep_secret_key,
    load_credentials,
)
from gateway_admin.supervisor.family import Family
from gateway_admin.supervisor.files import make_private_directory
from gateway_admin.supervisor.lock import Lock
from gateway_admin.supervisor.logs import Logs
from gateway_admin.supervisor.options import Options
from gateway_admin.supervisor.plan import Places, bulk_plan, embedding_plan, first_request, make_plan
from gateway_admin.supervisor.ports import StablePorts, free_port, listen
from gateway_admin.supervisor.ready_file import Ready, remove_ready, write_ready
from gateway_admin.supervisor.signals import Signals
from gateway_admin.supervisor.spawn import adopt_orphans, raise_file_limit
from gateway_admin.supervisor.stopping import Stopping
from gateway_admin.supervisor.strays import end_strays, remove_records
from gateway_admin.supervisor.supervisor import StartFailed, Supervisor
from gateway_admin.supervisor.targets import remove_targets
from gateway_admin.supervisor.timeline import Timeline
from gateway_admin.supervisor.valkey import answers, valkey_url, write_valkey_config
from tenants.keys import make_key
from workers.engines.models import minilm

_ROOT = Path(__file__).resolve().parent.parent.parent
# Each process gets its own, or none.
_OF_ONE_PROCESS = ("SLUICE_METRICS_PORT", "SLUICE_GATEWAY_ID", "SLUICE_WORKER_ID")


@dataclass(frozen=True, slots=True)
class Instance:
    """What a run holds while its lock and its port are taken."""

    options: Options
    console: Console
    timeline: Timeline
    listener: socket.socket
    credentials: Credentials
    places: Places
    logs: Logs

    def run(self, choose: random.Random) -> int:
        """Bring everything up, keep it up until asked to stop, take it down; return the exit status."""
        config = self.options.config
        self.console.say(f"Sluice: engine {config.engine}, model {config.model_name}, data in {self.options.data_dir}")
        adopt_orphans()
        raise_file_limit()
        signals = Signals()
        environ = _child_environ(self.options, self.places)
        family = Family(self.options.data_dir, environ, self.logs, lambda: free_port(choose))
        supervisor = Supervisor(family, signals, self.console, self.logs, self.timeline, self.options.root_url)
        try:
            return self._serve(supervisor)
        except StartFailed as error:
            self.console.say(f"Sluice could not start: {error}")
            return 1
        finally:
            remove_ready(self.options.data_dir)
            self.listener.close()
            Stopping(family, signals, self.console).run()
            remove_targets(self.options.data_dir)
            remove_records(self.options.data_dir)
            self.console.say("stopped")

    def _serve(self, supervisor: Supervisor) -> int:
        if not supervisor.bring_up(make_plan(self.options, self.places)):
            return 0
        answer = supervisor.first_answer(first_request(self.options))
        if answer is None:
            return 0
        ready = self._ready()
        write_ready(self.options.data_dir, ready)
        times = self.timeline.table(self.console.elapsed_s)
        announce(self.console, ready, self._served(), answer, times)
        self.console.say("ready")
        supervisor.keep_up([*bulk_plan(self.options), *embedding_plan(self.options)])
        return 0

    def _served(self) -> Served:
        config = self.options.config
        if config.engine == "padded":
            return Served(embeds=config.model_name)
        later = minilm.MODEL_ID if self.options.has_embeddings else ""
        return Served(chats=config.model_name, embeds_later=later)

    def _ready(self) -> Ready:
        return Ready(
            base_url=f"{self.options.root_url}/v1",
            api_key=api_key_path(self.options.data_dir).read_text(encoding="utf-8").strip(),
            admin_url=f"{self.options.root_url}/admin/",
            admin_user=ADMIN_USER,
            admin_password=self.credentials.admin_password,
            flower_url=_flower_url(self.places),
            pid=os.getpid(),
        )


def _flower_url(places: Places) -> str | None:
    return f"http://127.0.0.1:{places.flower_port}" if places.flower_port else None


class StoreUnreachable(Exception):
    """The Redis that the settings name does not answer."""


def run_instance(options: Options, console: Console, timeline: Timeline) -> int:
    """Run one instance until it is asked to stop; return the exit status.

    Raises:
        AlreadyRunning: another supervisor holds the data directory.
        CannotListen: the public port cannot be had.
        StoreUnreachable: the given Redis does not answer.
        OSError: the data directory cannot be used.
    """
    choose = random.Random()
    with _locked(options.data_dir), listen(options.host, options.port) as listener:
        _clean_up_after_a_crash(options.data_dir, console)
        keep_secret_key(secret_key_file(options.config))
        credentials = load_credentials(options.data_dir, lambda: make_key().plaintext)
        places = _find_places(options, credentials, listener.fileno(), StablePorts(options.data_dir, choose))
        logs = Logs(options.data_dir)
        logs.rotate("up")
        with os.fdopen(logs.open("up"), "a", encoding="utf-8") as log:
            console.log_to(log)
            return Instance(options, console, timeline, listener, credentials, places, logs).run(choose)


@contextlib.contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    is_new = make_private_directory(data_dir)
    lock = Lock.take(data_dir)
    try:
        yield
    finally:
        lock.release()
        if is_new:
            with contextlib.suppress(OSError):  # it holds something by now
                data_dir.rmdir()


def _clean_up_after_a_crash(data_dir: Path, console: Console) -> None:
    remove_ready(data_dir)
    remove_targets(data_dir)
    if strays := end_strays(data_dir):
        console.say(f"ended {strays} processes that an earlier run had left")


def _find_places(options: Options, credentials: Credentials, listener_fd: int, ports: StablePorts) -> Places:
    flower_port = ports.port("flower") if options.has_flower else 0
    if not options.embeds_valkey:
        url = options.config.redis_url
        if not answers(url):
            raise StoreUnreachable("The Redis that SLUICE_REDIS_URL or --redis-url names does not answer.")
        return Places(listener_fd, url, "", flower_port)
    port = ports.port("valkey")
    config = write_valkey_config(options.data_dir, port, credentials.valkey_password)
    return Places(listener_fd, valkey_url(port, credentials.valkey_password), str(config), flower_port)


def _child_environ(options: Options, places: Places) -> Mapping[str, str]:
    environ = {name: text for name, text in options.environ.items() if name not in _OF_ONE_PROCESS}
    environ.pop("SLUICE_REDIS_URL_FILE", None)
    if flower_url := _flower_url(places):
        environ.setdefault("SLUICE_FLOWER_URL", flower_url)  # an operator's own, behind a login say, stays
    python_path = os.pathsep.join(filter(None, (str(_ROOT), environ.get("PYTHONPATH"))))
    return environ | {
        "SLUICE_REDIS_URL": places.redis_url,
        "DJANGO_SETTINGS_MODULE": "gateway_admin.settings",
        "PYTHONPATH": python_path,
        "PYTHONUNBUFFERED": "1",
    }
