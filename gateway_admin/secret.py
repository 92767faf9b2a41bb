"""Django's secret key: from the settings, else from the data directory, else a known one for development."""

from pathlib import Path

from domain.config import Config, ConfigError

DEVELOPMENT_KEY = "insecure-development-key-of-sluice-never-use-it-where-others-can-reach-you"
"""Public, so it protects nothing; a system check says so, and production refuses to start with it."""


def secret_key_file(config: Config) -> Path:
    """Where a generated key of this data directory is kept."""
    return config.data_dir / "secret_key"


def read_secret_key(config: Config) -> str:
    """Return the secret key to use.

    Raises:
        ConfigError: production, and no key was given.
    """
    if config.secret_key:
        return config.secret_key
    path = secret_key_file(config)
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    if config.production:
        raise ConfigError(
            "SLUICE_SECRET_KEY is missing: production needs a long random one, in it or in the file that "
            "SLUICE_SECRET_KEY_FILE names."
        )
    return DEVELOPMENT_KEY
