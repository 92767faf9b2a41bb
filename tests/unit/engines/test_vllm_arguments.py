from dataclasses import replace

import pytest

from domain.config import Config
from workers.engines.vllm_arguments import PROBE_SEQS, arguments, tool_parser


def value_of(options: list[str], name: str) -> str:
    return options[options.index(name) + 1]


@pytest.mark.parametrize(
    ("dtype", "on_cpu", "expected"),
    [("auto", True, "float32"), ("auto", False, "auto"), ("bfloat16", True, "bfloat16"), ("float16", False, "float16")],
)
def test_only_on_a_cpu_auto_means_float32(dtype: str, on_cpu: bool, expected: str) -> None:
    assert value_of(arguments(replace(Config(), dtype=dtype), "m", on_cpu=on_cpu), "--dtype") == expected


def test_fractions_of_a_gib_of_cache_are_kept_on_a_cpu() -> None:
    config = replace(Config(), kv_cache_gib=0.5)

    assert value_of(arguments(config, "m", on_cpu=True), "--kv-cache-memory-bytes") == str(2**29)
    assert "--kv-cache-memory-bytes" not in arguments(config, "m", on_cpu=False)


def test_places_for_the_probe_come_on_top() -> None:
    options = arguments(replace(Config(), max_num_seqs=8), "m", on_cpu=True)

    assert value_of(options, "--max-num-seqs") == str(8 + PROBE_SEQS)


def test_all_names_are_served_and_the_own_one_comes_first() -> None:
    config = replace(Config(), served_model="own", model_aliases=("other", "third"))
    options = arguments(config, "m", on_cpu=True)
    start = options.index("--served-model-name")

    assert options[start + 1 : start + 4] == ["own", "other", "third"]


def test_the_context_is_limited_only_if_asked() -> None:
    assert "--max-model-len" not in arguments(Config(), "m", on_cpu=True)
    assert value_of(arguments(replace(Config(), max_model_len=64), "m", on_cpu=True), "--max-model-len") == "64"


@pytest.mark.parametrize(
    ("model_type", "vocabulary", "parser"),
    [
        ("llama", 49_152, "hermes"),
        ("llama", 128_256, "llama3_json"),
        ("qwen2", 151_936, "hermes"),
        ("opt", 50_272, None),
    ],
)
def test_a_family_has_its_tool_parser(model_type: str, vocabulary: int, parser: str | None) -> None:
    assert tool_parser(model_type, vocabulary) == parser
