"""An embedding model in memory, with what is known of it."""

import hashlib
import json
import logging
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from domain.config import Config
from workers.engines.known_embeddings import (
    KNOWN_EMBEDDINGS_NAME,
    KnownEmbeddings,
    check_embeddings,
    load_known_embeddings,
)
from workers.engines.models.embedding_reference import TEXTS, load_tokenizer
from workers.engines.models.prepare import fingerprint, prepare
from workers.engines.padded_model import PaddedModel
from workers.engines.padded_request import RequestReader
from workers.tokenization.rule import Tokenization

logger = logging.getLogger(__name__)

SEMANTIC_VERSION = "1.0.0"


@dataclass(frozen=True, slots=True)
class Loaded:
    """What an engine that pads holds while it lives.

    Attributes:
        model: computes embeddings.
        reader: reads bodies.
        max_tokens: of one input.
        version: semantic version + "-" + 12 hex characters of the hash of weights and settings.
        known: known embeddings; None for a model that there is no second implementation for.
        probe_rows: token ids that a probe embeds.
        took_s: seconds that loading took.
        tokenization: how gateways count its inputs.
    """

    model: PaddedModel
    reader: RequestReader
    max_tokens: int
    version: str
    known: KnownEmbeddings | None
    probe_rows: tuple[tuple[int, ...], ...]
    took_s: float
    tokenization: Tokenization

    def prove(self) -> None:
        """Compare a padded batch with known embeddings, or with the same rows one at a time where none are known.

        Raises:
            WrongEmbedding: they differ.
        """
        rows = [row for row in self.probe_rows if len(row) <= self.max_tokens]
        if self.known:
            expected = np.array(self.known.vectors[: len(rows)], dtype=np.float32)
        else:
            expected = np.concatenate([self.model.embed([row]) for row in rows])
        check_embeddings(rows, expected, self.model.embed(rows))

    def details(self) -> dict[str, Any]:
        """What an operator may want to know."""
        return {
            "device": self.model.device,
            "pooling": self.model.pooling,
            "normalises": self.model.normalises,
            "dimensions": self.model.size,
            "start_s": round(self.took_s, 1),
            "known_answers": self.known.made_by if self.known else "none: batches are compared with single rows",
        }


def load(config: Config) -> Loaded:
    """Prepare and load the configured model; takes seconds, the first time a download.

    Raises:
        ValueError: the settings do not fit the model or this engine.
        PreparationError: the model cannot be had.
        UnsupportedModel: it is built in a way that is not computed here.
    """
    begun = monotonic()
    if config.dtype not in ("auto", "float32"):
        raise ValueError(f"this engine computes in float32, not in {config.dtype}")
    directory = prepare(config, logger.info)
    model = PaddedModel(directory)
    max_tokens = min(config.max_model_len or model.max_tokens, model.max_tokens)
    if config.max_num_batched_tokens < max_tokens:
        raise ValueError(f"max_num_batched_tokens must be at least {max_tokens}, the longest input")
    tokenizer = load_tokenizer(directory)
    known = load_known_embeddings(directory / KNOWN_EMBEDDINGS_NAME)
    return Loaded(
        model=model,
        reader=RequestReader(tokenizer, max_tokens, model.vocabulary, model.size),
        max_tokens=max_tokens,
        version=_version(directory, model),
        known=known,
        probe_rows=known.rows if known else tuple(tuple(tokenizer.encode(text).ids) for text in TEXTS),
        took_s=monotonic() - begun,
        tokenization=Tokenization(tokenizer.to_str().encode()),
    )


def _version(directory: Path, model: PaddedModel) -> str:
    settings = {
        "torch": version("torch"),
        "transformers": version("transformers"),
        "pooling": model.pooling,
        "normalises": model.normalises,
    }
    digest = hashlib.sha256((fingerprint(directory) + json.dumps(settings, sort_keys=True)).encode()).hexdigest()
    return f"{SEMANTIC_VERSION}-{digest[:12]}"
