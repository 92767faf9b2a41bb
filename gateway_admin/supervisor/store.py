"""Where the store of a running instance is, for commands that are given beside it."""

import json

from domain.config import Config
from gateway_admin.supervisor.credentials import SECRETS_DIRECTORY
from gateway_admin.supervisor.valkey import valkey_url


def store_url(config: Config) -> str:
    """The URL of the ready sets: that of the settings, or of the Valkey that runs on the data directory.

    Raises:
        OSError, ValueError, KeyError: the settings name none, and nothing was ever started on the data directory.
    """
    if config.redis_url != Config().redis_url:
        return config.ready_url
    data_dir = config.data_dir.expanduser()
    port = json.loads((data_dir / "ports.json").read_text())["valkey"]
    password = (data_dir / SECRETS_DIRECTORY / "valkey_password").read_text().strip()
    return f"{valkey_url(port, password)}/{config.ready_db}"
