"""BERT in plain NumPy: the second opinion that known embeddings come from.

It shares nothing with an engine but the weights: one sequence at a time in float32, so there is no padding and no mask.
Devlin et al. 2019, "BERT: pre-training of deep bidirectional transformers"; mean pooling as in Reimers and Gurevych
2019, "Sentence-BERT".
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workers.engines.models.numpy_llama import Array, UnsupportedModel, load_weights

_erf = np.vectorize(math.erf, otypes=[np.float64])


class NumpyBert:
    """One encoder."""

    def __init__(self, directory: Path) -> None:
        """Load the weights of ``directory``.

        Raises:
            UnsupportedModel: not a plain BERT, or no safetensors there.
        """
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        _check_supported(config)
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._epsilon = np.float32(config["layer_norm_eps"])
        self._weights = load_weights(directory)

    def embed(self, tokens: Sequence[int]) -> Array:
        """The mean of the last layer's states, scaled to length 1; shape (hidden size,)."""
        mean = self.forward(tokens).mean(axis=0)
        embedding: Array = mean / np.linalg.norm(mean)
        return embedding

    def forward(self, tokens: Sequence[int]) -> Array:
        """States of the last layer, shape (len(tokens), hidden size)."""
        embedded = (
            self._weights["embeddings.word_embeddings.weight"][list(tokens)]
            + self._weights["embeddings.position_embeddings.weight"][: len(tokens)]
            + self._weights["embeddings.token_type_embeddings.weight"][0]
        )
        state = self._norm(embedded, "embeddings.LayerNorm")
        for layer in range(self._layers):
            prefix = f"encoder.layer.{layer}."
            mixed = self._linear(self._attend(state, prefix + "attention.self."), prefix + "attention.output.dense")
            state = self._norm(state + mixed, prefix + "attention.output.LayerNorm")
            inner = _gelu(self._linear(state, prefix + "intermediate.dense"))
            state = self._norm(state + self._linear(inner, prefix + "output.dense"), prefix + "output.LayerNorm")
        return state

    def _attend(self, state: Array, prefix: str) -> Array:
        query, key, value = (self._split(self._linear(state, prefix + name)) for name in ("query", "key", "value"))
        scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed: Array = (weights / weights.sum(axis=-1, keepdims=True) @ value).transpose(1, 0, 2)
        return mixed.reshape(len(state), -1)

    def _split(self, flat: Array) -> Array:
        """Shape (heads, tokens, head size)."""
        return flat.reshape(len(flat), self._heads, -1).transpose(1, 0, 2)

    def _linear(self, state: Array, name: str) -> Array:
        out: Array = state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return out

    def _norm(self, state: Array, name: str) -> Array:
        centred = state - state.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + self._epsilon)
        normed: Array = centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normed


def _gelu(state: Array) -> Array:
    wide: NDArray[np.float64] = state.astype(np.float64)
    activated: Array = (wide * 0.5 * (1 + _erf(wide / math.sqrt(2)))).astype(np.float32)
    return activated


def _check_supported(config: Mapping[str, Any]) -> None:
    plain = (
        config.get("model_type") == "bert"
        and config.get("hidden_act") == "gelu"
        and config.get("position_embedding_type", "absolute") == "absolute"
        and not config.get("quantization_config")
    )
    if not plain:
        raise UnsupportedModel(f"{config.get('model_type')} is not a plain BERT")
