"""OpenAI's answer to a request for embeddings."""

from base64 import b64encode

import numpy as np
import orjson
from numpy.typing import NDArray


def embeddings_answer(
    model: str, vectors: NDArray[np.float32], prompt_tokens: int, dimensions: int, *, as_base64: bool, normalise: bool
) -> bytes:
    """The answer as JSON.

    Args:
        model: the served name.
        vectors: shape (inputs, size).
        prompt_tokens: of all inputs, padding not counted.
        dimensions: numbers of each embedding that are wanted.
        as_base64: write little-endian float32 in base64 instead of an array of numbers.
        normalise: scale what was shortened to length 1 again.
    """
    kept = shorten(vectors, dimensions, normalise=normalise)
    data = [
        {"object": "embedding", "index": index, "embedding": _base64(row) if as_base64 else row}
        for index, row in enumerate(kept)
    ]
    usage = {"prompt_tokens": prompt_tokens, "total_tokens": prompt_tokens}
    answer = {"object": "list", "data": data, "model": model, "usage": usage}
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)


def shorten(vectors: NDArray[np.float32], dimensions: int, *, normalise: bool) -> NDArray[np.float32]:
    """The first ``dimensions`` numbers of each row."""
    if dimensions == vectors.shape[1]:
        return vectors
    kept: NDArray[np.float32] = np.ascontiguousarray(vectors[:, :dimensions])
    if normalise:
        kept /= np.maximum(np.linalg.norm(kept, axis=1, keepdims=True), np.float32(1e-12))
    return kept


def _base64(row: NDArray[np.float32]) -> str:
    return b64encode(row.astype("<f4").tobytes()).decode()
