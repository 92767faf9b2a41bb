import json
from pathlib import Path
from typing import Any

import pytest

np = pytest.importorskip("numpy", reason="comes with the engine's requirements")
torch = pytest.importorskip("torch", reason="comes with the engine's requirements")

from workers.engines.padded_model import PaddedModel, UnsupportedModel, read_pooling  # noqa: E402 (after the check)

ROWS = [[3, 1, 4], [1, 5, 9, 2, 6, 5, 3], [5]]


def lay_out(directory: Path, modules: list[str], **pooling: Any) -> None:
    """The files that say how a model pools, as sentence-transformers writes them."""
    entries = [
        {"type": f"sentence_transformers.models.{name}", "path": f"{n}_{name}"} for n, name in enumerate(modules)
    ]
    (directory / "modules.json").write_text(json.dumps(entries), encoding="utf-8")
    for entry in entries:
        (directory / entry["path"]).mkdir(exist_ok=True)
        (directory / entry["path"] / "config.json").write_text(json.dumps(pooling), encoding="utf-8")


@pytest.mark.parametrize("mode", ["mean_tokens", "cls_token", "max_tokens"])
def test_padding_changes_no_embedding_whatever_the_pooling(tmp_path: Path, mode: str) -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    BertModel(BertConfig(**sizes, vocab_size=11, max_position_embeddings=12)).save_pretrained(tmp_path)
    lay_out(tmp_path, ["Transformer", "Pooling"], **{f"pooling_mode_{mode}": True})
    model = PaddedModel(tmp_path)

    alone = np.concatenate([model.embed([row]) for row in ROWS])

    assert not model.normalises
    assert (model.size, model.max_tokens, model.vocabulary) == (16, 12, 11)
    assert model.embed(ROWS) == pytest.approx(alone, abs=1e-5)


def test_modules_say_how_to_pool_and_whether_to_normalise(tmp_path: Path) -> None:
    assert read_pooling(tmp_path) == ("mean", True)

    config = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "word_embedding_dimension": 8}
    lay_out(tmp_path, ["Transformer", "Pooling", "Normalize"], **config)

    assert read_pooling(tmp_path) == ("cls", True)


@pytest.mark.parametrize(
    ("modules", "pooling", "said"),
    [
        (["Transformer", "Pooling", "Dense"], {"pooling_mode_mean_tokens": True}, "module Dense"),
        (["Transformer"], {}, "no pooling"),
        (["Transformer", "Pooling"], {"pooling_mode_lasttoken": True}, "lasttoken"),
        (["Transformer", "Pooling"], {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}, "cls_token"),
        (["Transformer", "Pooling"], {}, "none"),
    ],
)
def test_what_is_not_computed_here_is_refused(
    tmp_path: Path, modules: list[str], pooling: dict[str, bool], said: str
) -> None:
    lay_out(tmp_path, modules, **pooling)

    with pytest.raises(UnsupportedModel, match=said):
        read_pooling(tmp_path)
