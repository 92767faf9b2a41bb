"""What ``manage.py up`` was asked for: options over the environment."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from domain.config import Config, parse_config


@dataclass(frozen=True, slots=True)
class Options:
    """One start.

    Attributes:
        host: address to listen on.
        port: TCP port to listen on.
        gateways: number of gateway processes.
        workers: number of worker processes, each with one engine.
        has_flower: whether Flower runs.
        config: the settings that all processes share.
        environ: the environment that carries them, without secrets of the data directory.
        worker_cores: CPU cores of the workers, comma separated; empty for what the environment says.
        p0_workers: number of further workers that serve P0 only.
        p0_cores: CPU cores of those; empty likewise.
        bulk: number of processes that work off batches; they join once the instance is ready.
        has_embeddings: whether a worker for embeddings joins once the instance is ready.
    """

    host: str
    port: int
    gateways: int
    workers: int
    has_flower: bool
    config: Config
    environ: Mapping[str, str]
    worker_cores: str = ""
    p0_workers: int = 0
    p0_cores: str = ""
    bulk: int = 0
    has_embeddings: bool = False

    @property
    def data_dir(self) -> Path:
        """The data directory, absolute."""
        return self.config.data_dir

    @property
    def root_url(self) -> str:
        """Where a client on this machine reaches the gateway; no trailing slash."""
        host = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(self.host, self.host)
        is_bare_ipv6 = ":" in host and not host.startswith("[")
        return f"http://{f'[{host}]' if is_bare_ipv6 else host}:{self.port}"

    @property
    def embeds_valkey(self) -> bool:
        """Whether a Valkey of its own runs; otherwise the settings name one."""
        return "SLUICE_REDIS_URL" not in self.environ and "SLUICE_REDIS_URL_FILE" not in self.environ


def merge_settings(environ: Mapping[str, str], given: Mapping[str, str | None]) -> tuple[Config, dict[str, str]]:
    """Lay the options ``given`` (setting name to text; None was not given) over ``environ``.

    Returns the settings, and the environment that makes a child read the same ones. The data directory
    becomes absolute, since children may run elsewhere.

    Raises:
        domain.config.ConfigError: a setting is unknown or has a wrong value.
    """
    merged = dict(environ)
    for name, text in given.items():
        if text is not None:
            merged.pop(f"SLUICE_{name.upper()}_FILE", None)
            merged[f"SLUICE_{name.upper()}"] = text
    merged["SLUICE_DATA_DIR"] = str(Path(merged.get("SLUICE_DATA_DIR", ".sluice")).expanduser().absolute())
    config = parse_config(merged, lambda path: Path(path).read_text(encoding="utf-8"))
    return config, merged
