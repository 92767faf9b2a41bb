"""An encoder with its pooling, on torch: rows of tokens in, one embedding a row out."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoModel, logging

_POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}


class UnsupportedModel(Exception):
    """The model is built in a way that is not computed here; the message says which."""


class PaddedModel:
    """One embedding model in float32, used by one thread at a time.

    Attributes:
        size: numbers of an embedding.
        max_tokens: tokens of a row at most, special ones included.
        vocabulary: token ids are below it.
        pooling: "mean", "cls" or "max", over the tokens of a row.
        normalises: embeddings have length 1.
        device: "cuda" or "cpu".
    """

    def __init__(self, directory: Path) -> None:
        """Load the model in ``directory``, laid out as sentence-transformers does.

        Raises:
            UnsupportedModel: it has other modules than an encoder, a pooling and a normalisation.
            OSError: a file is missing.
        """
        self.pooling, self.normalises = read_pooling(directory)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        model = AutoModel.from_pretrained(directory, dtype=torch.float32, local_files_only=True)
        self._model = model.eval().to(self.device)
        self.size: int = model.config.hidden_size
        self.max_tokens: int = model.config.max_position_embeddings
        self.vocabulary: int = model.config.vocab_size
        self._pad: int = model.config.pad_token_id or 0

    def embed(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Embed rows of token ids, padded at the right to the longest; shape (rows, size)."""
        longest = max(map(len, rows))
        ids = torch.tensor([[*row, *[self._pad] * (longest - len(row))] for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in rows])
        ids, mask = ids.to(self.device), mask.to(self.device)
        with torch.inference_mode():
            states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state
            vectors = self._pool(states, mask.unsqueeze(-1))
            if self.normalises:
                vectors = torch.nn.functional.normalize(vectors, dim=-1)
        result: NDArray[np.float32] = vectors.cpu().numpy()
        return result

    def _pool(self, states: Any, mask: Any) -> Any:
        """``states``: (rows, tokens, size); ``mask``: (rows, tokens, 1), 0 on padding."""
        if self.pooling == "cls":
            return states[:, 0]
        if self.pooling == "max":
            return states.masked_fill(mask == 0, -torch.inf).amax(dim=1)
        return (states * mask).sum(dim=1) / mask.sum(dim=1)


def read_pooling(directory: Path) -> tuple[str, bool]:
    """The pooling, and whether embeddings are normalised; without ``modules.json``, the mean and yes.

    Raises:
        UnsupportedModel: other modules, or a pooling that is not computed here.
    """
    path = directory / "modules.json"
    if not path.is_file():
        return "mean", True
    modules = {entry["type"].rsplit(".", 1)[-1]: entry["path"] for entry in json.loads(path.read_text("utf-8"))}
    if unknown := modules.keys() - {"Transformer", "Pooling", "Normalize"}:
        raise UnsupportedModel(f"the model's module {sorted(unknown)[0]} is not supported")
    if "Pooling" not in modules:
        raise UnsupportedModel("the model has no pooling")
    config = json.loads((directory / modules["Pooling"] / "config.json").read_text("utf-8"))
    chosen = [name for name, on in config.items() if name.startswith("pooling_mode_") and on is True]
    if len(chosen) != 1 or chosen[0] not in _POOLINGS:
        raise UnsupportedModel(f"the model's pooling {', '.join(chosen) or 'none'} is not supported")
    return _POOLINGS[chosen[0]], "Normalize" in modules
