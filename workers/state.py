"""What a worker says about itself, and what gateways and operators read of it."""

import os
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

STARTING, PROBING, READY, DRAINING, FAILED = "starting", "probing", "ready", "draining", "failed"


@dataclass(slots=True)
class OwnState:
    """State of this worker; written by the runner, read by the heart on its own thread."""

    model: str
    engine: str
    state: str = STARTING
    reason: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    started_at: float = field(default_factory=time.time)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def to(self, state: str, reason: str = "", **facts: Any) -> None:
        """Change the state, with a reason that a person can read."""
        with self._lock:
            self.state, self.reason = state, reason
            self.facts.update(facts)

    def note(self, **facts: Any) -> None:
        """Add facts without changing the state."""
        with self._lock:
            self.facts.update(facts)

    def fields(self) -> dict[str, Any]:
        """All fields for the hash ``sl:worker:<wid>``."""
        with self._lock:
            return {
                "engine": self.engine,
                "state": self.state,
                "reason": self.reason,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started_at": int(self.started_at),
                **self.facts,
            }


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker as others see it."""

    worker_id: str
    model: str
    engine: str
    version: str
    state: str
    reason: str
    max_num_seqs: int
    free_seqs: int
    running: int
    max_model_len: int
    started_at: int
    classes: tuple[str, ...] = ("p0", "p1", "p2")
    endpoints: tuple[str, ...] = ("chat", "completions")
    kv_tokens: int = 0
    tokenizer: str = ""

    @property
    def ready(self) -> bool:
        """True while it takes work."""
        return self.state == READY


def decode_worker(worker_id: str, raw: Mapping[bytes, bytes]) -> WorkerState:
    """Read the hash ``sl:worker:<wid>``; what a starting worker does not know yet is 0 or ""."""

    def text(name: bytes) -> str:
        return raw.get(name, b"").decode()

    def number(name: bytes) -> int:
        return int(raw.get(name, b"") or 0)

    return WorkerState(
        worker_id=worker_id,
        model=text(b"model"),
        engine=text(b"engine"),
        version=text(b"version"),
        state=text(b"state"),
        reason=text(b"reason"),
        max_num_seqs=number(b"max_num_seqs"),
        free_seqs=number(b"free_seqs"),
        running=number(b"running"),
        max_model_len=number(b"max_model_len"),
        started_at=number(b"started_at"),
        classes=tuple(text(b"classes").split(",")) if raw.get(b"classes") else ("p0", "p1", "p2"),
        endpoints=tuple(text(b"endpoints").split(",")) if raw.get(b"endpoints") else ("chat", "completions"),
        kv_tokens=number(b"kv_tokens"),
        tokenizer=text(b"tokenizer"),
    )
