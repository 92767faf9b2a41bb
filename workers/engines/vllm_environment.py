"""Environment of vLLM and of the processes it starts; imported before vLLM, which reads part of it at import."""

import logging
import os
from pathlib import Path

QUIET = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_LOGGING_STREAM": "ext://sys.stderr",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
}

# An operator may want vLLM's own log for once: what is set already stays.
for name, value in QUIET.items():
    os.environ.setdefault(name, value)


# They write a traceback for each body that they refuse, which clients could fill a disk with; our answers say why.
for module in ("chat_completion.serving", "completion.serving"):
    logging.getLogger(f"vllm.entrypoints.openai.{module}").setLevel(logging.CRITICAL)
logging.getLogger("vllm.tool_parsers").setLevel(logging.CRITICAL)


def keep_offline() -> None:
    """No look-ups at a model hub from now on: the model is a local directory."""
    from huggingface_hub import constants

    os.environ["HF_HUB_OFFLINE"] = "1"
    constants.HF_HUB_OFFLINE = True


def set_up(sockets: Path) -> None:
    """``sockets``: where vLLM's processes put the sockets that they talk through."""
    os.environ["VLLM_RPC_BASE_PATH"] = str(sockets)
    # The size of the KV cache is an argument; this variable, in whole GiB only, would overrule it.
    os.environ.pop("VLLM_CPU_KVCACHE_SPACE", None)
