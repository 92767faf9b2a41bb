"""System checks of what can be configured wrongly; each has a number, says what is wrong and what to do."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core import checks

from domain.config import Config
from gateway_admin.secret import DEVELOPMENT_KEY

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MIN_SECRET_LENGTH = 50


@checks.register()
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Check the settings in force."""
    return list(judge(settings.SLUICE, settings.SECRET_KEY))


def judge(config: Config, secret_key: str) -> Iterator[checks.CheckMessage]:
    """Yield what is wrong with ``config``; ``secret_key`` is the one in force."""
    yield from _judge_secret(config, secret_key)
    yield from _judge_hosts(config)
    yield from _judge_places(config)


def _judge_secret(config: Config, secret_key: str) -> Iterator[checks.CheckMessage]:
    weak = secret_key == DEVELOPMENT_KEY or len(secret_key) < _MIN_SECRET_LENGTH
    if weak and config.production:
        yield checks.Error(
            "The secret key is too weak for production.",
            hint=f"Set SLUICE_SECRET_KEY to at least {_MIN_SECRET_LENGTH} random characters.",
            id="sluice.E001",
        )
    elif weak:
        yield checks.Warning(
            "The secret key is known or short: whoever reaches the admin can forge a login.",
            hint="Start with 'manage.py up', which makes one, or set SLUICE_SECRET_KEY.",
            id="sluice.W001",
        )


def _judge_hosts(config: Config) -> Iterator[checks.CheckMessage]:
    if not config.allowed_hosts:
        yield checks.Error(
            "No host name is allowed, so the admin answers nobody.",
            hint="Set SLUICE_ALLOWED_HOSTS to the names under which the gateway is reached, comma separated.",
            id="sluice.E002",
        )
    if config.production and "*" in config.allowed_hosts:
        yield checks.Error(
            "Every host name is allowed in production.",
            hint="Set SLUICE_ALLOWED_HOSTS to the names under which the gateway is reached, comma separated.",
            id="sluice.E003",
        )
    if config.production and not config.https:
        yield checks.Error(
            "Production without TLS: keys and passwords would travel in clear.",
            hint="Put a proxy that ends TLS in front, let it set X-Forwarded-Proto, and set SLUICE_HTTPS=true.",
            id="sluice.E004",
        )


def _judge_places(config: Config) -> Iterator[checks.CheckMessage]:
    if not _can_write(config.data_dir):
        yield checks.Error(
            f"The data directory {config.data_dir} cannot be written.",
            hint="Set SLUICE_DATA_DIR to a directory that this user may write to.",
            id="sluice.E005",
        )
    redis = urlsplit(config.redis_url)
    if redis.scheme not in ("redis", "rediss") or not redis.hostname or redis.path.strip("/"):
        yield checks.Error(
            "SLUICE_REDIS_URL is not of the form redis://host:port.",
            hint="Leave the database number out: SLUICE_READY_DB and SLUICE_BROKER_DB give the two in use.",
            id="sluice.E006",
        )
    elif redis.hostname not in _LOOPBACK and not config.database_url:
        yield checks.Warning(
            "The queues are on another machine, but the database is a file on this one.",
            hint="Gateways on several machines need one database: set SLUICE_DATABASE_URL to a Postgres.",
            id="sluice.W002",
        )


def _can_write(directory: Path) -> bool:
    place = directory.expanduser().absolute()
    while not place.exists() and place != place.parent:
        place = place.parent
    return place.is_dir() and os.access(place, os.W_OK | os.X_OK)
