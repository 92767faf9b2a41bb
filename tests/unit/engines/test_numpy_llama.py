import json
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="comes with the engine's requirements")
torch = pytest.importorskip("torch", reason="comes with the engine's requirements")

from workers.engines.models.numpy_llama import NumpyLlama, UnsupportedModel, log_softmax  # noqa: E402 (after the check)

TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]
CONFIG = {
    "model_type": "llama",
    "hidden_act": "silu",
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10_000.0,
    "vocab_size": 11,
    "tie_word_embeddings": False,
    "max_position_embeddings": 64,
}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    fields = {name: value for name, value in CONFIG.items() if name != "model_type"}
    LlamaForCausalLM(LlamaConfig(**fields)).save_pretrained(tmp_path)
    return tmp_path


def test_it_agrees_with_another_implementation(directory: Path) -> None:
    from transformers import LlamaForCausalLM

    with torch.no_grad():
        expected = LlamaForCausalLM.from_pretrained(directory)(torch.tensor([TOKENS])).logits[0].numpy()

    assert np.abs(NumpyLlama(directory).forward(TOKENS) - expected).max() < 1e-5


def test_token_by_token_equals_all_at_once(directory: Path) -> None:
    model = NumpyLlama(directory)
    whole = model.forward(TOKENS)
    model.reset()
    pieces = np.concatenate([model.forward(TOKENS[:3]), *(model.forward([token]) for token in TOKENS[3:])])

    assert np.abs(whole - pieces).max() < 1e-5


def test_log_probabilities_add_up_to_one() -> None:
    scores = log_softmax(np.array([[1000.0, 0.0, -1000.0], [1.0, 2.0, 3.0]], dtype=np.float32))

    assert np.exp(scores).sum(axis=-1) == pytest.approx(1.0)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    "change",
    [
        {"model_type": "mamba"},
        {"attention_bias": True},
        {"rope_parameters": {"rope_type": "yarn"}},
        {"hidden_act": "gelu"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_architecture_is_refused(directory: Path, change: dict[str, object]) -> None:
    path = directory / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | change), encoding="utf-8")

    with pytest.raises(UnsupportedModel):
        NumpyLlama(directory)
