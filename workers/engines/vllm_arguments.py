"""Our settings as vLLM's command line."""

from domain.config import Config

PROBE_SEQS = 2
"""Sequences an engine has beyond ``max_num_seqs``, so that a probe never waits for a place under full load."""

_TOOL_PARSERS = {
    "qwen2": "hermes",
    "qwen3": "hermes",
    "qwen3_moe": "hermes",
    "smollm3": "hermes",
    "mistral": "mistral",
    "granite": "granite",
    "gpt_oss": "openai",
    "phi3": "phi4_mini_json",
}

_LLAMA_3_VOCABULARY = 128_256


def arguments(config: Config, model: str, *, on_cpu: bool) -> list[str]:
    """Arguments of vLLM's server for ``model`` (a path or a Hugging Face id)."""
    names = [config.model_name, *config.model_aliases]
    options = ["--model", model, "--served-model-name", *names, "--dtype", _dtype(config, on_cpu)]
    options += ["--max-num-seqs", str(config.max_num_seqs + PROBE_SEQS)]
    options += ["--max-num-batched-tokens", str(config.max_num_batched_tokens)]
    options += ["--enable-prefix-caching", "--enable-chunked-prefill", "--scheduling-policy", "priority"]
    options += ["--enable-prompt-tokens-details", "--fingerprint-mode", "hash", "--no-use-tqdm-on-load"]
    # A called tool's arguments always fit its schema, strict or not: small models would fail at it.
    options += ["--tool-strict-level", "parameter"]
    if config.max_model_len:
        options += ["--max-model-len", str(config.max_model_len)]
    if on_cpu:
        # Compiling takes 80 s and gains little on a CPU.
        options += ["--enforce-eager", "--kv-cache-memory-bytes", str(int(config.kv_cache_gib * 2**30))]
    return options


def tool_parser(model_type: str, vocabulary: int) -> str | None:
    """Name of vLLM's parser for the tool calls of a model family; None where we know of none."""
    if model_type == "llama":
        return "llama3_json" if vocabulary == _LLAMA_3_VOCABULARY else "hermes"
    return _TOOL_PARSERS.get(model_type)


def _dtype(config: Config, on_cpu: bool) -> str:
    return "float32" if config.dtype == "auto" and on_cpu else config.dtype
