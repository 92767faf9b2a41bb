"""Listening sockets and port numbers."""

import errno
import json
import random
import socket
from pathlib import Path

from gateway_admin.supervisor.files import write_private

BACKLOG = 2048
# Below the range from which the kernel picks ports for outgoing connections, so that a port that is
# free for a moment (its owner restarts) is not lost to a client.
PRIVATE_PORTS = range(20_000, 32_000)


class CannotListen(Exception):
    """The address asked for cannot be used; the message says why and what to do."""


def listen(host: str, port: int) -> socket.socket:
    """Open the public listening socket.

    Raises:
        CannotListen: the port is taken, forbidden, or the host is not one of this machine's.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except (socket.gaierror, OverflowError) as error:
        raise CannotListen(f"Cannot listen on {host}:{port}: {error}. Choose another with --host and --port.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(_explain(host, port, error)) from None
    listener.setblocking(False)
    return listener


def _explain(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is taken by another program. Choose another with --port, such as --port {port + 1}."
        )
    return f"Cannot listen on {host}:{port}: {error.strerror}. Choose another with --host and --port."


def is_free(port: int) -> bool:
    """Whether a server could listen on loopback ``port`` now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port(choose: random.Random) -> int:
    """A loopback port that nobody listens on now.

    Raises:
        CannotListen: none was found.
    """
    for port in choose.sample(PRIVATE_PORTS, 200):
        if is_free(port):
            return port
    raise CannotListen("No free port on 127.0.0.1 between 20000 and 32000.")


class StablePorts:
    """Private ports that stay the same from one start to the next, kept in ``ports.json``."""

    def __init__(self, data_dir: Path, choose: random.Random) -> None:
        self._path = data_dir / "ports.json"
        self._choose = choose

    def port(self, name: str) -> int:
        """The port of ``name``: the last one when it is free, else a new one.

        Raises:
            CannotListen: no port is free.
        """
        known = self._read()
        port = known.get(name, 0)
        if not port or not is_free(port):
            port = free_port(self._choose)
            write_private(self._path, json.dumps(known | {name: port}))
        return port

    def _read(self) -> dict[str, int]:
        try:
            known = json.loads(self._path.read_text())
        except (FileNotFoundError, ValueError):
            return {}
        if not isinstance(known, dict):
            return {}
        return {str(name): port for name, port in known.items() if isinstance(port, int)}
