from pathlib import Path

import pytest

from domain.config import Config, ConfigError
from gateway_admin.supervisor.options import Options, merge_settings


def options(host: str = "127.0.0.1", **environ: str) -> Options:
    return Options(host, 8000, 1, 1, True, Config(), environ)


def test_an_option_wins_over_the_environment_and_its_file(tmp_path: Path) -> None:
    environ = {"SLUICE_ENGINE": "vllm", "SLUICE_MODEL_FILE": str(tmp_path / "missing"), "HOME": "/h"}
    config, merged = merge_settings(environ, {"engine": "simulator", "model": "m", "dtype": None})
    assert (config.engine, config.model) == ("simulator", "m")
    assert "SLUICE_MODEL_FILE" not in merged
    assert merged["HOME"] == "/h"


def test_the_data_directory_becomes_absolute() -> None:
    config, merged = merge_settings({}, {"data_dir": "here"})
    assert config.data_dir == Path.cwd() / "here"
    assert merged["SLUICE_DATA_DIR"] == str(Path.cwd() / "here")


@pytest.mark.parametrize("given", [{"engine": "vlm"}, {"max_num_seqs": "0"}, {"dtype": "float8"}])
def test_a_wrong_option_is_named(given: dict[str, str | None]) -> None:
    with pytest.raises(ConfigError, match=f"SLUICE_{next(iter(given)).upper()}"):
        merge_settings({}, given)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("gateway.example", "http://gateway.example:8000"),
    ],
)
def test_the_url_is_one_that_a_client_here_can_use(host: str, url: str) -> None:
    assert options(host).root_url == url


def test_a_given_redis_replaces_the_embedded_one() -> None:
    assert options().embeds_valkey
    assert not options(SLUICE_REDIS_URL="redis://elsewhere").embeds_valkey
    assert not options(SLUICE_REDIS_URL_FILE="/run/secrets/redis").embeds_valkey
