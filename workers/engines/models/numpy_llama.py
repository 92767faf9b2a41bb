"""Llama in plain NumPy: the second opinion that known answers come from.

It shares nothing with an engine but the weights: no attention kernel, no paging, no batching, one sequence at a time
in float32. Written for being right and readable; about 15 tokens a second for 135 million weights.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

Array = NDArray[np.float32]


class UnsupportedModel(Exception):
    """The model's architecture is not the plain one that a module here computes."""


class NumpyLlama:
    """One model; :meth:`forward` extends a sequence, whose keys and values it keeps."""

    def __init__(self, directory: Path) -> None:
        """Load the weights of ``directory``.

        Raises:
            UnsupportedModel: not a plain Llama, or no safetensors there.
        """
        config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
        _check_supported(config)
        self._layers: int = config["num_hidden_layers"]
        self._heads: int = config["num_attention_heads"]
        self._kv_heads: int = config["num_key_value_heads"]
        self._head_size: int = config.get("head_dim") or config["hidden_size"] // self._heads
        self._epsilon = np.float32(config["rms_norm_eps"])
        self._frequencies = _rotary_frequencies(config, self._head_size)
        self._weights = load_weights(directory)
        self._past: list[tuple[Array, Array]] = []

    def reset(self) -> None:
        """Forget the sequence."""
        self._past = []

    def forward(self, tokens: Sequence[int]) -> Array:
        """Append ``tokens`` to the sequence; returns their logits, shape (len(tokens), vocabulary)."""
        start = self._past[0][0].shape[1] if self._past else 0
        rotation = self._rotation(start, len(tokens))
        state: Array = self._weights["model.embed_tokens.weight"][list(tokens)]
        past, self._past = self._past, []
        for layer in range(self._layers):
            prefix = f"model.layers.{layer}."
            normed = self._norm(state, prefix + "input_layernorm.weight")
            state = state + self._attention(normed, prefix + "self_attn.", rotation, past[layer] if past else None)
            normed = self._norm(state, prefix + "post_attention_layernorm.weight")
            state = state + self._feed_forward(normed, prefix + "mlp.")
        head = self._weights.get("lm_head.weight", self._weights["model.embed_tokens.weight"])
        logits: Array = self._norm(state, "model.norm.weight") @ head.T
        return logits

    def _norm(self, state: Array, name: str) -> Array:
        scale = np.sqrt(np.mean(state * state, axis=-1, keepdims=True) + self._epsilon)
        normed: Array = state / scale * self._weights[name]
        return normed

    def _feed_forward(self, state: Array, prefix: str) -> Array:
        gate = state @ self._weights[prefix + "gate_proj.weight"].T
        up = state @ self._weights[prefix + "up_proj.weight"].T
        out: Array = (gate / (1 + np.exp(-gate)) * up) @ self._weights[prefix + "down_proj.weight"].T
        return out

    def _attention(
        self, state: Array, prefix: str, rotation: tuple[Array, Array], past: tuple[Array, Array] | None
    ) -> Array:
        query = _rotate(self._project(state, prefix + "q_proj.weight", self._heads), rotation)
        key = _rotate(self._project(state, prefix + "k_proj.weight", self._kv_heads), rotation)
        value = self._project(state, prefix + "v_proj.weight", self._kv_heads)
        if past:
            key, value = np.concatenate((past[0], key), axis=1), np.concatenate((past[1], value), axis=1)
        self._past.append((key, value))
        group = self._heads // self._kv_heads
        mixed = _attend(query, np.repeat(key, group, axis=0), np.repeat(value, group, axis=0))
        flat = mixed.transpose(1, 0, 2).reshape(len(state), -1)
        out: Array = flat @ self._weights[prefix + "o_proj.weight"].T
        return out

    def _project(self, state: Array, name: str, heads: int) -> Array:
        """Shape (heads, tokens, head size)."""
        flat: Array = state @ self._weights[name].T
        return flat.reshape(len(state), heads, self._head_size).transpose(1, 0, 2)

    def _rotation(self, start: int, length: int) -> tuple[Array, Array]:
        angles = np.outer(np.arange(start, start + length), self._frequencies)
        both = np.concatenate((angles, angles), axis=-1)
        return np.cos(both).astype(np.float32), np.sin(both).astype(np.float32)


def log_softmax(logits: Array) -> NDArray[np.float64]:
    """Natural log-probabilities along the last axis, in double precision."""
    wide = logits.astype(np.float64)
    shifted = wide - wide.max(axis=-1, keepdims=True)
    result: NDArray[np.float64] = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return result


def _rotate(heads: Array, rotation: tuple[Array, Array]) -> Array:
    cosine, sine = rotation
    first, second = np.split(heads, 2, axis=-1)
    turned: Array = heads * cosine + np.concatenate((-second, first), axis=-1) * sine
    return turned


def _attend(query: Array, key: Array, value: Array) -> Array:
    scores = query @ key.transpose(0, 2, 1) / np.float32(np.sqrt(query.shape[-1]))
    new, total = scores.shape[-2:]
    future = np.arange(total)[None, :] > np.arange(total - new, total)[:, None]
    scores = np.where(future, np.float32(-np.inf), scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed: Array = weights / weights.sum(axis=-1, keepdims=True) @ value
    return mixed


def _rotary_frequencies(config: Mapping[str, Any], head_size: int) -> NDArray[np.float64]:
    rope = config.get("rope_parameters") or {}
    theta = float(rope.get("rope_theta") or config.get("rope_theta") or 10_000.0)
    frequencies: NDArray[np.float64] = theta ** -(np.arange(0, head_size, 2, dtype=np.float64) / head_size)
    return frequencies


def _check_supported(config: Mapping[str, Any]) -> None:
    rope = config.get("rope_parameters") or {}
    plain = (
        config.get("model_type") == "llama"
        and config.get("hidden_act") == "silu"
        and not (config.get("attention_bias") or config.get("mlp_bias") or config.get("rope_scaling"))
        and rope.get("rope_type", "default") == "default"
        and not config.get("quantization_config")
    )
    if not plain:
        raise UnsupportedModel(f"{config.get('model_type')} is not a plain Llama")


def load_weights(directory: Path) -> dict[str, Array]:
    """All weights in the safetensors of ``directory``, in float32.

    Raises:
        UnsupportedModel: there are none.
    """
    weights: dict[str, Array] = {}
    for path in sorted(directory.glob("*.safetensors")):
        # Through torch, since NumPy has no bfloat16.
        with safe_open(path, framework="pt") as tensors:
            names: list[str] = tensors.keys()
            weights |= {name: tensors.get_tensor(name).float().numpy() for name in names}
    if not weights:
        raise UnsupportedModel("no safetensors in the model's directory")
    return weights
