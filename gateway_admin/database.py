"""Django's database settings out of Sluice's: SQLite in the data directory, or Postgres by URL."""

from typing import Any

import dj_database_url

from domain.config import Config, ConfigError

SQLITE_NAME = "sluice.sqlite3"

_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=10000; PRAGMA cache_size=-16384;"
)
_POSTGRES_SCHEMES = ("postgres://", "postgresql://")


def database_settings(config: Config) -> dict[str, Any]:
    """Return one entry of Django's ``DATABASES``.

    Raises:
        ConfigError: the URL is not one of Postgres.
    """
    if not config.database_url:
        return _sqlite(config)
    if not config.database_url.startswith(_POSTGRES_SCHEMES):
        raise ConfigError("SLUICE_DATABASE_URL must be postgres://user:password@host:port/name, or empty for SQLite.")
    try:
        parsed = dj_database_url.parse(config.database_url, conn_health_checks=True)
    except ValueError as error:
        raise ConfigError("SLUICE_DATABASE_URL cannot be read as a URL of Postgres.") from error
    return dict(parsed)


def _sqlite(config: Config) -> dict[str, Any]:
    # IMMEDIATE takes the write lock when a transaction begins: waiting there honours the timeout, while
    # upgrading a read lock later fails at once with "database is locked".
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": config.data_dir.absolute() / SQLITE_NAME,
        "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 10, "init_command": _SQLITE_PRAGMAS},
    }
