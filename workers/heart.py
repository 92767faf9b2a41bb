"""The worker's heart: a thread that renews the lease whatever the event loop does, and sees when the loop hangs."""

import os
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, cast

from redis import Redis
from redis.exceptions import RedisError

from domain.config import Config
from tracing import logs
from workers.ready import scripts
from workers.ready.ready_set import worker_state_arguments
from workers.state import READY, OwnState

log = logs.get(__name__)

LOOP_HANG_S = 30.0
EXIT_HUNG = 70


class Beating(Protocol):
    """What the heart asks of the runner; called on the heart's thread."""

    def rooms(self) -> str:
        """Sequences free now for each class served, such as ``p0=3,p1=2``."""

    def running(self) -> int:
        """Items running now."""

    def on_waiting(self) -> None:
        """Items wait though no ticket may be under way."""

    def on_taken_for_dead(self) -> None:
        """The lease was lost: what was held runs elsewhere."""

    def touch_loop(self, seen: Callable[[], None]) -> None:
        """Have the event loop call ``seen``."""


class Heart:
    """Beats every ``heartbeat_ms``; the lease lasts ``lease_ttl_ms``."""

    def __init__(self, config: Config, worker_id: str, own: OwnState, runner: Beating, sweep: bool = True) -> None:
        self._config, self._worker_id, self._own, self._runner = config, worker_id, own, runner
        self._redis = Redis.from_url(config.ready_url, socket_timeout=2, socket_connect_timeout=2)
        self._beat = self._redis.register_script(scripts.source("worker_beat"))
        self._sweep = self._redis.register_script(scripts.source("sweep"))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heart", daemon=True)
        self._loop_seen = time.monotonic()
        self._first = True

    def start(self) -> None:
        """Register at once, then beat."""
        self._once()
        self._thread.start()

    def stop(self) -> None:
        """Stop beating and leave the list of the living at once."""
        self._stop.set()
        self._thread.join(timeout=3)
        try:
            self._redis.delete(f"sl:worker:{self._worker_id}")
        except RedisError:
            log.info("heart_stopped_without_redis")
        self._redis.close()

    def _run(self) -> None:
        while not self._stop.wait(self._config.heartbeat_ms / 1000):
            self._watch_loop()
            self._once()

    def _once(self) -> None:
        try:
            waiting, switch = cast("tuple[int, bytes]", self._beat(args=self._arguments()))
            self._first = False
            self._own.note(switch=switch.decode())
            self._sweep(args=[self._config.heartbeat_ms, 2000])
        except (RedisError, OSError) as error:
            log.warning("beat_failed", error=str(error))
            return
        if waiting < 0:
            log.error("taken_for_dead")
            self._first = True
            self._runner.on_taken_for_dead()
        elif waiting > 0 and self._own.state == READY:
            self._runner.on_waiting()

    def _arguments(self) -> list[Any]:
        rooms = self._runner.rooms()
        free = max((int(part.partition("=")[2]) for part in rooms.split(",")), default=0)
        state = {**self._own.fields(), "running": self._runner.running(), "free_seqs": free}
        lease_ms = self._config.lease_ttl_ms
        return worker_state_arguments(self._worker_id, lease_ms, self._first, self._own.model, rooms, state)

    def _watch_loop(self) -> None:
        if self._own.state != READY:
            self._loop_seen = time.monotonic()
            return
        self._runner.touch_loop(self._saw_loop)
        if time.monotonic() - self._loop_seen > LOOP_HANG_S:
            log.critical("event_loop_hangs", seconds=LOOP_HANG_S)
            os._exit(EXIT_HUNG)

    def _saw_loop(self) -> None:
        self._loop_seen = time.monotonic()
