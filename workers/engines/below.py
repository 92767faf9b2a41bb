"""The way from an engine's own processes to the worker, for what is traced in them.

Datagrams on a socket in the engine's directory. Whoever sends never waits: where the worker does not keep up, or is
gone, they are dropped.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgpack

from domain.config import Config
from domain.trace.launches import Launches, flat_launches, read_launches

# Not SLUICE_*, which are settings and read strictly.
SOCKET, LAYERS = "ENGINE_TRACE_SOCKET", "ENGINE_TRACE_LAYERS"
MODEL, TRITON = "model", "triton"

_MODEL, _LAUNCHES = "m", "l"
_MOST_BYTES = 65_536
_MOST_LAUNCHES = 500
"""In one datagram, which then has half of its bytes."""

_MOST_WAITING = 20_000


def layers_of(config: Config) -> tuple[str, ...]:
    """What is to be traced in an engine's processes."""
    wanted = ((MODEL, config.trace_model), (TRITON, config.trace_triton))
    return tuple(layer for layer, is_wanted in wanted if is_wanted)


class Sender:
    """The engine's end."""

    def __init__(self, path: str) -> None:
        """Open it.

        Raises:
            OSError: there is no worker.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise

    def model(self, started_us: int, duration_us: int, tokens: int) -> None:
        """A pass of the model, of ``tokens`` tokens."""
        self._send([_MODEL, started_us, duration_us, tokens])

    def launches(self, found: Sequence[Launches]) -> None:
        """Kernels were launched."""
        for start in range(0, len(found), _MOST_LAUNCHES):
            self._send([_LAUNCHES, [flat_launches(one) for one in found[start : start + _MOST_LAUNCHES]]])

    def close(self) -> None:
        """Send nothing more."""
        self._socket.close()

    def _send(self, message: list[Any]) -> None:
        try:
            self._socket.send(msgpack.packb(message))
        except OSError:
            return  # nobody takes it just now, or ever; the engine goes on


class Receiver:
    """The worker's end, made before the engine's processes start."""

    def __init__(self, path: Path, layers: Sequence[str]) -> None:
        """Open it, and let processes that are started from now on know of it.

        Raises:
            OSError: the path cannot be bound.
        """
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        path.unlink(missing_ok=True)
        self._socket.bind(str(path))
        self._model: list[tuple[int, int]] = []
        self._launches: list[Launches] = []
        os.environ.update({SOCKET: str(path), LAYERS: ",".join(layers)})

    def model_us(self, from_us: int, until_us: int) -> int:
        """Time inside the model, of passes that ended in between; microseconds. What ended before is forgotten."""
        self._drain()
        passes, self._model = self._model, [one for one in self._model if one[0] > until_us]
        return sum(duration_us for end_us, duration_us in passes if from_us < end_us <= until_us)

    def take_launches(self) -> list[Launches]:
        """Launches that were told since the last call."""
        self._drain()
        found, self._launches = self._launches, []
        return found

    def close(self) -> None:
        """Hear nothing more; processes started from now on do not know of it."""
        self._socket.close()
        for name in (SOCKET, LAYERS):
            os.environ.pop(name, None)

    def _drain(self) -> None:
        while True:
            try:
                packed = self._socket.recv(_MOST_BYTES)
            except OSError:
                return  # empty, or closed
            try:
                self._take(msgpack.unpackb(packed, use_list=True))
            except (ValueError, TypeError, IndexError):
                continue

    def _take(self, message: list[Any]) -> None:
        if message[0] == _MODEL and len(self._model) < _MOST_WAITING:
            self._model.append((message[1] + message[2], message[2]))
        elif message[0] == _LAUNCHES and len(self._launches) < _MOST_WAITING:
            self._launches += [read_launches(flat) for flat in message[1]]
