"""Known embeddings: what a healthy engine must compute from a few rows of very different lengths.

They are made once, when a model is prepared, one row at a time by an implementation that shares no code with the engine
(``workers.engines.models.numpy_bert``). The engine computes them in one padded batch: a mask, position or pooling that
is wrong shows.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

KNOWN_EMBEDDINGS_NAME = "known_embeddings.json"

MIN_COSINE = 1 - 1e-5
"""Measured in float32 over 4 to 500 tokens: 1 - 2e-7. A row that attends to its padding falls below 0.99."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class KnownEmbeddings:
    """The known embeddings of one model.

    Attributes:
        made_by: the implementation that computed them.
        rows: token ids, special tokens included.
        vectors: one for each row.
    """

    made_by: str
    rows: tuple[tuple[int, ...], ...]
    vectors: tuple[tuple[float, ...], ...]


class WrongEmbedding(Exception):
    """An engine's embedding differs from the known one; the message says what was expected and what was found."""


def load_known_embeddings(path: Path) -> KnownEmbeddings | None:
    """Read what was stored; None if there is nothing."""
    if not path.is_file():
        return None
    raw = json.loads(path.read_text(encoding="utf-8"))
    return KnownEmbeddings(raw["made_by"], tuple(map(tuple, raw["rows"])), tuple(map(tuple, raw["vectors"])))


def save_known_embeddings(path: Path, known: KnownEmbeddings) -> None:
    """Write ``known`` as JSON."""
    path.write_text(json.dumps(asdict(known)), encoding="utf-8")


def check_embeddings(rows: Sequence[Sequence[int]], expected: Vectors, found: Vectors) -> None:
    """Compare the embeddings of ``rows``, both of shape (rows, size).

    Raises:
        WrongEmbedding: another shape, values that are not finite, another length, or another direction.
    """
    if expected.shape != found.shape:
        raise WrongEmbedding(f"expected embeddings of shape {expected.shape}, found {found.shape}")
    if not np.isfinite(found).all():
        raise WrongEmbedding("expected finite numbers, found others")
    for tokens, want, got in zip(rows, expected.astype(np.float64), found.astype(np.float64), strict=True):
        lengths = float(np.linalg.norm(want)), float(np.linalg.norm(got))
        cosine = float(want @ got) / max(lengths[0] * lengths[1], 1e-30)
        if cosine < MIN_COSINE:
            raise WrongEmbedding(f"row of {len(tokens)} tokens: expected cosine {MIN_COSINE}, found {cosine:.6f}")
        if abs(lengths[1] - lengths[0]) > 1e-3 * lengths[0]:
            raise WrongEmbedding(
                f"row of {len(tokens)} tokens: expected length {lengths[0]:.4f}, found {lengths[1]:.4f}"
            )
