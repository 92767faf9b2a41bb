import json
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="comes with the engine's requirements")
torch = pytest.importorskip("torch", reason="comes with the engine's requirements")

from workers.engines.models.numpy_bert import NumpyBert  # noqa: E402 (after the check)
from workers.engines.models.numpy_llama import UnsupportedModel  # noqa: E402

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]
CONFIG = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 11,
    "max_position_embeddings": 12,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    BertModel(BertConfig(**CONFIG)).save_pretrained(tmp_path)
    return tmp_path


def test_it_agrees_with_another_implementation(directory: Path) -> None:
    from transformers import BertModel

    with torch.no_grad():
        model = BertModel.from_pretrained(directory).eval()
        expected = model(torch.tensor([TOKENS])).last_hidden_state[0].numpy()

    assert np.abs(NumpyBert(directory).forward(TOKENS) - expected).max() < 1e-5


def test_an_embedding_is_the_mean_with_length_one(directory: Path) -> None:
    model = NumpyBert(directory)
    mean = model.forward(TOKENS).mean(axis=0)

    assert model.embed(TOKENS) == pytest.approx(mean / np.linalg.norm(mean), abs=1e-6)


@pytest.mark.parametrize(
    "change",
    [{"model_type": "roberta"}, {"hidden_act": "relu"}, {"position_embedding_type": "relative_key"}],
    ids=lambda change: next(iter(change)),
)
def test_another_architecture_is_refused(directory: Path, change: dict[str, object]) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")

    with pytest.raises(UnsupportedModel):
        NumpyBert(directory)
