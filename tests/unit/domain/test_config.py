"""Settings: a wrong value stops the boot with a message that names it."""

import re

import pytest

from domain.config import Config, ConfigError, parse_config


def no_file(name: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", name)


def parse(**environ: str) -> Config:
    return parse_config({f"SLUICE_{name.upper()}": value for name, value in environ.items()}, no_file)


def test_defaults_hold_without_any_setting() -> None:
    assert parse_config({"HOME": "/root"}, no_file) == Config()


def test_values_are_read_by_their_type() -> None:
    config = parse(max_num_seqs="8", production="yes", keep_alive_s="0.5", allowed_hosts="a.example, b.example")
    assert (config.max_num_seqs, config.production, config.keep_alive_s) == (8, True, 0.5)
    assert config.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("engine", "tgi", "must be one of vllm, padded, simulator"),
        ("max_num_seqs", "0", "at least 1"),
        ("max_num_seqs", "many", "must be a number"),
        ("keep_alive_s", "nan", "at least"),
        ("production", "maybe", "true or false"),
        ("max_num_sequences", "8", "not a setting"),
        ("trusted_proxies", "10.0.0.0/8, proxy.example", "'proxy.example'"),
        ("trusted_proxies", "10.0.0.1/8", "has host bits set"),
    ],
)
def test_a_wrong_value_is_named(name: str, value: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        parse(**{name: value})
    assert f"SLUICE_{name.upper()}" in str(caught.value)


def test_a_secret_may_come_from_a_file() -> None:
    config = parse_config({"SLUICE_SECRET_KEY_FILE": "/run/secret"}, lambda name: f"from {name}\n")
    assert config.secret_key == "from /run/secret"


def test_a_secret_given_twice_is_refused() -> None:
    both = {"SLUICE_SECRET_KEY_FILE": "/run/secret", "SLUICE_SECRET_KEY": "x"}
    with pytest.raises(ConfigError, match="keep one"):
        parse_config(both, lambda _: "y")


def test_a_missing_secret_file_is_named() -> None:
    with pytest.raises(ConfigError, match="SLUICE_SECRET_KEY_FILE"):
        parse_config({"SLUICE_SECRET_KEY_FILE": "/nowhere"}, no_file)


def test_a_lease_must_outlive_three_heartbeats() -> None:
    with pytest.raises(ConfigError, match="SLUICE_LEASE_TTL_MS"):
        parse(lease_ttl_ms="1000", heartbeat_ms="500")


def test_clients_call_a_model_by_the_last_part_of_its_path() -> None:
    assert parse(model="org/Some-Model").model_name == "some-model"
    assert parse(model="/models/x/", served_model="mine").model_name == "mine"
